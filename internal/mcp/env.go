package mcp

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// passedOn are the variables a started server gets from us: what programs need
// to run, and nothing that could be a secret.
var passedOn = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ", "TMPDIR"}

func baseEnv(environ []string) map[string]string {
	env := make(map[string]string)
	for _, pair := range environ {
		if k, v, ok := strings.Cut(pair, "="); ok && slices.Contains(passedOn, k) {
			env[k] = v
		}
	}
	return env
}

// expand fills in ${NAME} and returns the environment, the headers and the
// values that must never be shown.
func expand(s Server, base map[string]string, lookup func(string) (string, bool)) (env []string, headers map[string]string, secrets []string, err error) {
	all := maps.Clone(base)
	headers = make(map[string]string, len(s.Headers))
	for k, v := range s.Env {
		if all[k], err = fill(v, lookup); err != nil {
			return nil, nil, nil, fmt.Errorf("env %s: %w", k, err)
		}
		secrets = append(secrets, all[k])
	}
	for k, v := range s.Headers {
		if headers[k], err = fill(v, lookup); err != nil {
			return nil, nil, nil, fmt.Errorf("header %s: %w", k, err)
		}
		secrets = append(secrets, headers[k])
		// A scheme in front is no secret, what follows is.
		if _, token, ok := strings.Cut(headers[k], " "); ok {
			secrets = append(secrets, token)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(all)) {
		env = append(env, k+"="+all[k])
	}
	return env, headers, secrets, nil
}

// secretName finds names of variables and headers whose values are secrets.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|auth|cred|cookie|session`)

// Secrets are the values in variables and headers that must not be seen: what was
// filled in from elsewhere, and what stands under a name that says so. Other
// values are left alone: a path or a word would be hidden wherever it occurs.
func (c Config) Secrets(lookup func(name string) (string, bool)) []string {
	var all []string
	for _, s := range c.Servers {
		for _, values := range []map[string]string{s.Env, s.Headers, {"oauth_client_secret": s.ClientSecret}} {
			for name, text := range values {
				all = append(all, secretsIn(name, text, lookup)...)
			}
		}
	}
	return all
}

// secretsIn are the secrets of one value. What cannot be filled in is none: the
// server will not start with it.
func secretsIn(name, text string, lookup func(string) (string, bool)) []string {
	var found []string
	whole, err := fill(text, func(name string) (string, bool) {
		if lookup == nil {
			return "", false
		}
		v, ok := lookup(name)
		if ok {
			found = append(found, v)
		}
		return v, ok
	})
	if err != nil || !secretName.MatchString(name) {
		return found
	}
	found = append(found, whole)
	// A scheme in front is no secret, what follows is.
	if _, token, ok := strings.Cut(whole, " "); ok {
		found = append(found, token)
	}
	return found
}

// fill replaces every ${NAME}. Nothing else is special: no command runs, and
// what was filled in is not looked at again.
func fill(text string, lookup func(string) (string, bool)) (string, error) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String(), nil
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || !envName.MatchString(name) {
			return "", fmt.Errorf("${ must be followed by a name and }")
		}
		value, ok := "", false
		if lookup != nil {
			value, ok = lookup(name)
		}
		if !ok {
			return "", fmt.Errorf("${%s} is not set", name)
		}
		if strings.ContainsAny(value, "\r\n\x00") {
			return "", fmt.Errorf("the value of ${%s} holds a line break or NUL", name)
		}
		b.WriteString(value)
		text = after
	}
}
