package script

import (
	"fmt"
	"regexp"

	"stave/internal/model"
)

// choose returns the reply to a request and its number in the conversation.
func (s *Script) choose(r model.Request) (*reply, int, error) {
	for _, sc := range s.scenes {
		if sc.fits(r) {
			return sc.choose(s.name, r.Messages)
		}
	}
	return nil, 0, &model.Error{
		Kind:    model.ErrBadRequest,
		Message: fmt.Sprintf("script %s has no scene for this request and no replies outside of scenes", s.name),
	}
}

func (sc *scene) fits(r model.Request) bool {
	if sc.system != nil && !sc.system.MatchString(r.System) {
		return false
	}
	return sc.opening == nil || matchesAny(sc.opening, opening(r.Messages))
}

// choose walks through the conversation again: every assistant message was the
// answer to what stood before it, which says which reply it used up.
func (sc *scene) choose(script string, messages []model.Message) (*reply, int, error) {
	var (
		inOrder  int
		answered int
		used     = map[*reply]int{}
	)
	for i, m := range messages {
		if m.Role != model.RoleAssistant {
			continue
		}
		answered++
		if cued := sc.cued(messages[:i], used); cued != nil {
			used[cued]++
		} else {
			inOrder++
		}
	}
	if cued := sc.cued(messages, used); cued != nil {
		return cued, answered + 1, nil
	}
	if next := sc.inOrder(inOrder); next != nil {
		return next, answered + 1, nil
	}
	return nil, 0, &model.Error{
		Kind: model.ErrBadRequest,
		Message: fmt.Sprintf("script %s%s has no reply number %d, and no `when` matches: add a reply, or `times` to one",
			script, sc.title, inOrder+1),
	}
}

// cued returns the first reply whose `when` matches and that is not used up.
func (sc *scene) cued(messages []model.Message, used map[*reply]int) *reply {
	var texts []string
	for _, r := range sc.cues {
		if r.times > 0 && used[r] >= r.times {
			continue
		}
		if texts == nil {
			texts = newest(messages)
		}
		if matchesAny(r.when, texts) {
			return r
		}
	}
	return nil
}

// inOrder returns the reply without `when` that comes after n played ones.
func (sc *scene) inOrder(n int) *reply {
	for _, r := range sc.ordered {
		if n -= max(r.times, 1); n < 0 {
			return r
		}
	}
	return nil
}

func matchesAny(pattern *regexp.Regexp, texts []string) bool {
	for _, text := range texts {
		if pattern.MatchString(text) {
			return true
		}
	}
	return false
}

// opening returns the texts of the first user message.
func opening(messages []model.Message) []string {
	for _, m := range messages {
		if m.Role == model.RoleUser {
			return texts(m)
		}
	}
	return nil
}

// newest returns the texts of the newest user message, or of the tool results
// that came last; results of parallel calls may be in several messages.
func newest(messages []model.Message) []string {
	end := len(messages)
	for end > 0 && messages[end-1].Role == model.RoleAssistant {
		end--
	}
	if end == 0 {
		return nil
	}
	begin := end - 1
	for messages[begin].Role == model.RoleTool && begin > 0 && messages[begin-1].Role == model.RoleTool {
		begin--
	}
	var all []string
	for _, m := range messages[begin:end] {
		all = append(all, texts(m)...)
	}
	return all
}

func texts(m model.Message) []string {
	var all []string
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			all = append(all, p.Result.Text)
		case p.Text != "":
			all = append(all, p.Text)
		}
	}
	return all
}
