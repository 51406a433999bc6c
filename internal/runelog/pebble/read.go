package pebble

import (
	"context"
	"fmt"
	"iter"

	"github.com/cockroachdb/pebble/v2"

	"stave/internal/runelog"
)

// blockSize is how much is read at once. No iterator stays open while a reader
// works on a block, so slow readers hold up nothing.
const blockSize = 128 << 10

// readAhead is how many blocks may wait between those who read, check and deliver.
const readAhead = 3

// usualRune is about the size of one, to make room for a few.
const usualRune = 512

// Read implements runelog.Log.
func (s *Store) Read(ctx context.Context, log string, after uint64) iter.Seq2[runelog.Rune, error] {
	return func(yield func(runelog.Rune, error) bool) {
		st, err := s.existing(ctx, log)
		if err != nil {
			yield(runelog.Rune{}, err)
			return
		}
		defer s.release(st)
		c := cursor{store: s, st: st, seq: after, spare: make(chan []runelog.Rune, readAhead)}
		if c.run(ctx, yield) {
			if _, _, fault := st.view(); fault != nil {
				yield(runelog.Rune{}, fault)
			}
		}
	}
}

// Watch implements runelog.Log.
func (s *Store) Watch(ctx context.Context, log string, after uint64) iter.Seq2[runelog.Rune, error] {
	return func(yield func(runelog.Rune, error) bool) {
		st, err := s.existing(ctx, log)
		if err != nil {
			if ctx.Err() == nil {
				yield(runelog.Rune{}, err)
			}
			return
		}
		defer s.release(st)
		st.watch(1)
		defer st.watch(-1)
		quiet := func(r runelog.Rune, err error) bool {
			return (err == nil || ctx.Err() == nil) && yield(r, err)
		}
		c := cursor{store: s, st: st, seq: after, spare: make(chan []runelog.Rune, readAhead)}
		for c.run(ctx, quiet) {
			changed, ended := st.wait(c.seq)
			if ended {
				if _, _, fault := st.view(); fault != nil {
					quiet(runelog.Rune{}, fault)
				}
				return
			}
			if changed == nil {
				continue
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-s.closing:
				quiet(runelog.Rune{}, errClosed(s.dir))
				return
			}
		}
	}
}

// cursor is a reader's place in a log.
type cursor struct {
	store *Store
	st    *state
	seq   uint64 // the last rune delivered

	check *runelog.Checker
	spare chan []runelog.Rune // room for runes of parts that were delivered
}

// block is a run of runes read at once; ends[i] is where rune i ends in bytes.
type block struct {
	bytes []byte
	ends  []int
}

// part is a decoded block: runes, then perhaps what kept the next from being
// read or decoded.
type part struct {
	runes   []runelog.Rune
	unread  error
	unsound error
}

// run delivers runes up to the present head; it says false when the reader is
// done or has been given an error.
func (c *cursor) run(ctx context.Context, yield func(runelog.Rune, error) bool) (more bool) {
	head, status, _ := c.st.view()
	if c.seq >= head.Seq {
		return true
	}
	fail := func(err error) bool {
		c.st.blame(err)
		yield(runelog.Rune{}, err)
		return false
	}
	if status.Archived {
		return fail(fmt.Errorf("%w: %s", runelog.ErrArchived, c.st.log))
	}
	if fresh := c.st.after(c.seq); fresh != nil {
		return c.deliverFresh(ctx, fresh, yield)
	}
	if err := c.start(ctx); err != nil {
		return fail(err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// A rune is delivered once its successor, or the head, has confirmed its
	// hash: until then a damaged one could look sound.
	var held runelog.Rune
	for p := range c.parts(ctx, head.Seq) {
		damage := p.unread
		for i := range p.runes {
			if err := c.check.Check(&p.runes[i]); err != nil {
				damage, p.unsound = err, nil
				break
			}
			if held.Seq != 0 && !c.deliver(ctx, &held, yield) {
				return false
			}
			held = p.runes[i]
		}
		if p.unsound != nil {
			damage = c.check.Broken(p.unsound)
		}
		if damage != nil {
			return fail(damage)
		}
		c.reuse(p.runes)
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if held.Hash() != head.Hash {
		return fail(runelog.Damaged(c.st.log, held.Seq, "its hash is not the head's"))
	}
	return c.deliver(ctx, &held, yield)
}

// deliverFresh passes on runes that were checked when they were appended.
func (c *cursor) deliverFresh(ctx context.Context, fresh []runelog.Rune, yield func(runelog.Rune, error) bool) bool {
	for _, r := range fresh {
		hash := r.Hash()
		if !c.deliver(ctx, &r, yield) {
			return false
		}
		c.check = runelog.NewChecker(c.st.log, runelog.Head{Seq: r.Seq, Hash: hash})
	}
	return true
}

// parts yields the runes up to a seq. Of a long stretch some blocks are read and
// decoded, which is mostly hashing, while others are delivered.
func (c *cursor) parts(ctx context.Context, to uint64) iter.Seq[part] {
	return func(yield func(part) bool) {
		from := c.seq + 1
		first, err := c.fill(ctx, from, to)
		from += uint64(len(first.ends))
		if !yield(c.decode(first, err)) || from > to {
			return
		}
		for coming := range c.ahead(ctx, from, to) {
			if !yield(<-coming) {
				return
			}
		}
	}
}

// ahead reads on until ctx ends. Each block is decoded by a goroutine of its own;
// they come in the order of the log.
func (c *cursor) ahead(ctx context.Context, from, to uint64) <-chan chan part {
	parts := make(chan chan part, readAhead)
	go func() {
		defer close(parts)
		for from <= to {
			b, err := c.fill(ctx, from, to)
			from += uint64(len(b.ends))
			coming := make(chan part, 1)
			go func() { coming <- c.decode(b, err) }()
			select {
			case parts <- coming:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return parts
}

// decode reads the runes of a block that was read, or was not.
func (c *cursor) decode(b block, err error) part {
	if err != nil {
		return part{unread: err}
	}
	var room []runelog.Rune
	select {
	case room = <-c.spare:
	default:
	}
	runes, err := runelog.DecodeBlock(room[:0], b.bytes, b.ends)
	return part{runes: runes, unsound: err}
}

// reuse gives back the room of runes that were delivered.
func (c *cursor) reuse(runes []runelog.Rune) {
	select {
	case c.spare <- runes:
	default:
	}
}

// start finds the hash the first rune must name.
func (c *cursor) start(ctx context.Context) error {
	if c.check != nil {
		return nil
	}
	before := runelog.Head{Seq: c.seq}
	if c.seq > 0 {
		if err := c.store.enter(ctx); err != nil {
			return err
		}
		defer c.store.leave()
		raw, err := c.store.raw(c.st.log, c.seq)
		if err != nil {
			return err
		}
		last, err := runelog.Decode(raw)
		if err != nil {
			return fmt.Errorf("log %s, seq %d: %w", c.st.log, c.seq, err)
		}
		before.Hash = last.Hash()
	}
	c.check = runelog.NewChecker(c.st.log, before)
	return nil
}

// fill reads runes from seq on, at least one and at most a block.
func (c *cursor) fill(ctx context.Context, from, to uint64) (b block, err error) {
	if err := c.store.enter(ctx); err != nil {
		return b, err
	}
	defer c.store.leave()
	it, err := c.store.db.NewIter(&pebble.IterOptions{
		LowerBound: seqKey(runeTable, c.st.log, from),
		UpperBound: seqKey(runeTable, c.st.log, to+1),
	})
	if err != nil {
		return b, readError(c.st.log, from, err)
	}
	defer func() {
		if closeErr := it.Close(); err == nil && closeErr != nil {
			err = readError(c.st.log, from, closeErr)
		}
	}()
	// Runes keep pointing into the block, so each block is new.
	runes := min(blockSize/usualRune, int(to-from+1))
	b.bytes, b.ends = make([]byte, 0, runes*usualRune), make([]int, 0, runes)
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return b, readError(c.st.log, from, err)
		}
		if n := len(b.bytes); n > 0 && n+len(value) > blockSize {
			break
		}
		b.bytes = append(b.bytes, value...)
		b.ends = append(b.ends, len(b.bytes))
	}
	if err := it.Error(); err != nil {
		return b, readError(c.st.log, from, err)
	}
	if len(b.ends) == 0 {
		return b, c.store.missing(c.st.log, from)
	}
	return b, nil
}

func (c *cursor) deliver(ctx context.Context, r *runelog.Rune, yield func(runelog.Rune, error) bool) bool {
	if err := runelog.Resolve(ctx, c.store, r); err != nil {
		yield(runelog.Rune{}, err)
		return false
	}
	c.seq = r.Seq
	return yield(*r, nil)
}
