package toolbox

import (
	"context"
	_ "embed"
	"fmt"
)

//go:embed write.md
var writeDoc string

type writeArgs struct {
	Path    string `json:"path" min:"1" jsonschema:"the file to write"`
	Content string `json:"content" jsonschema:"the complete new content"`
}

// Write returns the tool that replaces a whole file.
func Write() Tool { return New("Write", writeDoc, Idempotent, false, runWrite).onFiles() }

func runWrite(ctx context.Context, env Env, args writeArgs) (Output, error) {
	t, err := openTarget(ctx, env, args.Path)
	if err != nil {
		return Output{}, err
	}
	defer t.Close()
	settled, was, err := t.recovered(env)
	if err != nil {
		return Output{}, err
	}
	if settled != nil {
		return *settled, nil
	}
	meta, err := t.apply(ctx, env, was, []byte(args.Content))
	if err != nil {
		return Output{}, err
	}
	did := "replaced"
	switch {
	case t.before == "":
		did = "created"
	case meta["before"] == meta["after"]:
		did = "no change: the content is already that of"
	}
	return Output{Text: fmt.Sprintf("%s %s (%d bytes)", did, t.path, len(args.Content)), Meta: meta}, nil
}
