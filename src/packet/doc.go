// SPDX-License-Identifier: Apache-2.0

// Package packet parses and rewrites one frame in place.
//
// It is one of two executors of an Action; the other is the XDP program
// (src/bpf/fastpath.c). Key, Action and Port have one memory layout with the C
// structs of the same names (src/bpf/shared.h), and LoadMeta reads struct meta:
// what is on the wire is kept as bytes in wire order, everything else is in the
// machine's, padding is explicit. Both executors make the same checks in the
// same order, so that they give the same Reason and the same bytes for the
// same frame; src/bpf's differential test holds them to it.
package packet
