package policy

import (
	"fmt"

	"mvdan.cc/sh/v3/syntax"
)

// describe says why a piece of a script makes it more than plain. The last case
// is for kinds a later parser may bring: unknown is never plain.
func describe(n syntax.Node) string {
	switch n.(type) {
	case *syntax.Assign, *syntax.ArrayExpr, *syntax.ArrayElem:
		return "it sets a variable"
	case *syntax.Redirect:
		return "it redirects input or output"
	case *syntax.Subshell:
		return "it starts a subshell"
	case *syntax.Block:
		return "it groups commands"
	case *syntax.IfClause, *syntax.CaseClause, *syntax.CaseItem:
		return "it has branches"
	case *syntax.WhileClause, *syntax.ForClause, *syntax.WordIter, *syntax.CStyleLoop:
		return "it has a loop"
	case *syntax.FuncDecl:
		return "it defines a function"
	case *syntax.CmdSubst, *syntax.ProcSubst:
		return "it runs a command inside a word"
	case *syntax.ParamExp:
		return "it uses a variable"
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause,
		*syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm, *syntax.FlagsArithm:
		return "it calculates"
	case *syntax.TestClause, *syntax.BinaryTest, *syntax.UnaryTest, *syntax.ParenTest, *syntax.TestDecl:
		return "it tests a condition"
	case *syntax.DeclClause:
		return "it declares variables"
	case *syntax.ExtGlob, *syntax.BraceExp:
		return "it uses a pattern the shell expands"
	case *syntax.TimeClause, *syntax.CoprocClause:
		return "it wraps a command in a keyword of the shell"
	case *syntax.Comment:
		return "it has a comment"
	default:
		return fmt.Sprintf("it contains something unknown (%T)", n)
	}
}
