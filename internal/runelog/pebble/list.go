package pebble

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"stave/internal/runelog"
)

// Head implements runelog.Log.
func (s *Store) Head(ctx context.Context, log string) (runelog.Head, error) {
	st, err := s.existing(ctx, log)
	if err != nil {
		return runelog.Head{}, err
	}
	defer s.release(st)
	head, _, _ := st.view()
	return head, nil
}

// Meta implements runelog.Log.
func (s *Store) Meta(ctx context.Context, log string) (runelog.Meta, error) {
	st, err := s.existing(ctx, log)
	if err != nil {
		return runelog.Meta{}, err
	}
	defer s.release(st)
	if err := s.enter(ctx); err != nil {
		return runelog.Meta{}, err
	}
	defer s.leave()
	e, err := s.entry(log)
	return e.meta, err
}

// List implements runelog.Log. After the logs that are there it reports those
// that should be.
func (s *Store) List(ctx context.Context) iter.Seq2[runelog.Meta, error] {
	return func(yield func(runelog.Meta, error) bool) {
		metas, err := s.metas(ctx)
		slices.SortFunc(metas, func(a, b *runelog.Meta) int {
			if a.UpdatedMs != b.UpdatedMs {
				return cmp.Compare(b.UpdatedMs, a.UpdatedMs)
			}
			return cmp.Compare(a.Log, b.Log)
		})
		for _, meta := range metas {
			if !yield(*meta, nil) {
				return
			}
		}
		if err != nil {
			yield(runelog.Meta{}, err)
		}
	}
}

func (s *Store) metas(ctx context.Context) (metas []*runelog.Meta, err error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.leave()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{headTable}, UpperBound: []byte{headTable + 1}})
	if err != nil {
		return nil, fmt.Errorf("list logs: %w", err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("list logs: %w", closeErr)
		}
	}()
	anchored := 0
	for ok := it.First(); ok; ok = it.Next() {
		log := string(it.Key()[1:])
		value, err := it.ValueAndErr()
		if err != nil {
			return metas, readError(log, 0, err)
		}
		e, err := decodeEntry(value)
		if err != nil {
			return metas, runelog.Damaged(log, 0, "%w", err)
		}
		if e.head.Seq > 0 {
			metas = append(metas, &e.meta)
			if _, ok := s.anchor.head(log); ok {
				anchored++
			}
		}
		if err := ctx.Err(); err != nil {
			return metas, err
		}
	}
	if err := it.Error(); err != nil {
		return metas, fmt.Errorf("list logs: %w", err)
	}
	return metas, s.checkUnlisted(s.anchor.unlisted(metas, anchored))
}

// checkUnlisted reports logs that are gone; those that came while others were
// listed are not.
func (s *Store) checkUnlisted(logs []string) error {
	var gone []string
	for _, log := range logs {
		if e, err := s.entry(log); err != nil || e.head.Seq == 0 {
			gone = append(gone, log)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return fmt.Errorf("%w: acknowledged logs are missing from the store: %s", runelog.ErrCorrupt, shorten(gone))
}

// shorten names a few and counts the rest.
func shorten(logs []string) string {
	const shown = 3
	slices.Sort(logs)
	if extra := len(logs) - shown; extra > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(logs[:shown], ", "), extra)
	}
	return strings.Join(logs, ", ")
}
