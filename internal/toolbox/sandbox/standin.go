package sandbox

import (
	"io/fs"
	"time"
)

// standInMode is the mode of a stand-in: nobody writes to it.
const standInMode fs.FileMode = 0o400

// standInTime is the modification time of a stand-in. With its size and mode it
// tells a stand-in that was left when we were killed from an empty file of the user.
var standInTime = time.Unix(1, 57415645)

// IsStandIn tells a stand-in for a missing protected path from a file of the user.
// It is no part of a workspace, and it goes away with the command that needs it.
func IsStandIn(mode fs.FileMode, size int64, changed time.Time) bool {
	return mode == standInMode && size == 0 && changed.Equal(standInTime)
}

func isStandIn(info fs.FileInfo) bool { return IsStandIn(info.Mode(), info.Size(), info.ModTime()) }
