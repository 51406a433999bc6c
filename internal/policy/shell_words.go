package policy

import "strings"

// setOf makes a set of the words of a text.
func setOf(text string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(text) {
		set[w] = true
	}
	return set
}

var (
	// shellWords are builtins and keywords of bash. They change the shell itself or
	// run what they are given, and no program of that name does the same. Four
	// are missing on purpose: echo, pwd, true and false are programs as well.
	shellWords = setOf(`
		. : [ [[ ]] alias bg bind break builtin caller case cd command compgen complete compopt continue coproc
		declare dirs disown do done elif else enable esac eval exec exit export fc fg fi for function getopts hash
		help history if in jobs kill let local logout mapfile popd printf pushd read readarray readonly return select
		set shift shopt source suspend test then time times trap type typeset ulimit umask unalias unset until wait while`)

	// startsOthers are programs and builtins that run the words after them as a command.
	startsOthers = setOf(`
		builtin busybox chroot chrt command coproc doas entr env exec firejail flock gdb ionice ltrace nice nohup
		nsenter parallel pkexec proot prlimit runuser script setarch setpriv setsid ssh sshpass stdbuf strace su sudo
		systemd-run taskset time timeout toybox unbuffer unshare valgrind watch xargs`)

	// readsScripts take shell commands as text.
	readsScripts = setOf(`ash bash dash eval fish ksh mksh sh source su ssh script trap watch zsh . rbash csh tcsh parallel`)

	// readsPrograms do what an operand says: a script, a target, a subcommand.
	readsPrograms = setOf(`
		awk bun deno docker ed emacs ex expect gawk git go lua make mawk nawk node nodejs npm npx osascript perl php
		pip pip3 pipx pnpm podman python python2 python3 ruby sed sqlite3 tclsh uv uvx vi vim yarn`)

	// runsByFlag start programs when a flag tells them to.
	runsByFlag = setOf(`find fd man rg sort split tar zip rsync scp less more`)
)
