package checkpoint

// stamp tells one state of a file from the next: whoever changes the content
// changes ctime, which cannot be set back.
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}
