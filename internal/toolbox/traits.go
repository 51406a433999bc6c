package toolbox

// What a call touches. The gate asks a person before a conversation that has
// read both private and untrusted content sends anything out.
const (
	private   = "private"   // reads the user's files or notes
	untrusted = "untrusted" // brings in content from outside
	external  = "external"  // can send data out
	protected = "protected" // changes what makes other programs run something later
)

// with gives a tool its traits.
func (t Tool) with(traits ...string) Tool {
	t.Traits = traits
	return t
}

// onFiles marks a tool that changes the files of the workspace its arguments name.
func (t Tool) onFiles() Tool {
	t.Workspace, t.Touches = true, touchesFiles
	return t
}
