// Package mcp speaks the Model Context Protocol as a client: it connects the servers a person has configured and makes their tools tools of the toolbox.
//
// A server is a stranger. It runs only after a person approved what it is, and
// each of its tools is offered only with the definition a person approved. All
// it sends is checked strictly, bounded, and treated as untrusted content.
package mcp
