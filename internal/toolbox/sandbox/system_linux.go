//go:build amd64 || arm64

package sandbox

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// systemDirs are the programs and libraries of the machine.
func systemDirs() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}
}

// systemFiles are the parts of /etc that programs need to work. They are listed
// one by one because root owns, and so may read, all the rest.
func systemFiles(network bool) []string {
	files := []string{
		"/etc/alternatives", "/etc/debian_version", "/etc/gitconfig", "/etc/group", "/etc/ld.so.cache", "/etc/locale.alias",
		"/etc/localtime", "/etc/magic", "/etc/mime.types", "/etc/nsswitch.conf", "/etc/os-release", "/etc/passwd",
		"/etc/protocols", "/etc/services", "/etc/shells", "/etc/timezone",
	}
	if network {
		files = append(files, "/etc/ca-certificates", "/etc/gai.conf", "/etc/host.conf", "/etc/hosts",
			"/etc/pki/ca-trust/extracted", "/etc/pki/tls/certs", "/etc/resolv.conf", "/etc/ssl/certs", "/etc/ssl/openssl.cnf")
	}
	return files
}

// maxCopied is the largest file that is copied into namespaces. To copy a small
// one is cheaper than to mount it: bubblewrap reads the list of mounts each time.
const maxCopied = 1 << 20

// sortSystemFiles says which of the system's files are there, to be copied or to
// be mounted.
func sortSystemFiles(network bool) (copied, mounted []string) {
	for _, path := range systemFiles(network) {
		info, err := os.Stat(path)
		switch {
		case err != nil: // not on this system
		case !info.Mode().IsRegular() || info.Size() > maxCopied:
			mounted = append(mounted, path)
		case unix.Access(path, unix.R_OK) == nil:
			copied = append(copied, path)
		}
	}
	return copied, mounted
}

// findProgram looks where the system installs programs. The PATH is not asked: it
// may lead into a workspace.
func findProgram(name string) (string, error) {
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", os.ErrNotExist
}
