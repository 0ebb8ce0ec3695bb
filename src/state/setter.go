// SPDX-License-Identifier: Apache-2.0

package state

// Setter is a table of somebody else's whose rules set what a packet's class is
// told by. They are not part of what fw4 makes of its configuration.
type Setter struct {
	Table    string // family and name: "inet dscptag"
	DSCP     bool   // in the IP header
	Mark     bool   // the packet's or the connection's
	Priority bool   // the packet's, by which qdiscs choose a class
}
