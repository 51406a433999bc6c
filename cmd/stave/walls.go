package main

import (
	"stave/internal/machine/session"
	"stave/internal/policy"
	"stave/internal/toolbox/sandbox"
)

// landlockOnly says what commands can do that run behind Landlock alone.
const landlockOnly = "commands run behind Landlock alone, which cannot keep paths like .git from being changed"

const moreWalls = "install bubblewrap and allow user namespaces for more (`stave doctor` says what is missing)"

// wallsNote says that commands nobody is asked about run behind fewer walls than
// there could be, unless a person chose so.
func wallsNote(c session.Config, walls func() sandbox.Report) string {
	asks := c.Mode != policy.ModeYolo && c.Mode != policy.ModeAllowlist
	if asks || c.ReadOnly || c.Sandbox != "" && c.Sandbox != autoLevel {
		return ""
	}
	if walls().Best() != sandbox.Landlock {
		return "" // better, or no command runs
	}
	return landlockOnly + "; " + moreWalls + ", or say --sandbox landlock if that is what you want"
}
