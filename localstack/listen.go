package main

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// freePort returns a loopback port that is free at this moment. Somebody may take it before the engine does, which
// checkListeners finds out.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

var errPortTaken = errors.New("port taken by another process")

// portIsTaken says whether somebody listens there.
func portIsTaken(port int) bool {
	l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return true
	}
	l.Close()
	return false
}

// checkListeners makes sure that the processes of a session listen on the port and, everywhere, on loopback addresses
// only. Without it an answer on the port could come from somebody else, who was faster to take it. Systems without
// /proc are not checked.
func checkListeners(session, port int) error {
	addresses, err := listeners(session)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	mine := false
	for _, a := range addresses {
		if !a.Addr().IsLoopback() {
			return fmt.Errorf("listener at %v, which is not a loopback address", a)
		}
		mine = mine || int(a.Port()) == port
	}
	if !mine {
		return errPortTaken
	}
	return nil
}

// listeners returns where the processes of a session listen for TCP connections. See proc(5) and proc_net(5).
func listeners(session int) ([]netip.AddrPort, error) {
	sockets := map[string]bool{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		return nil, os.ErrNotExist
	}
	for _, stat := range stats {
		folder := filepath.Dir(stat)
		pid, _ := strconv.Atoi(filepath.Base(folder))
		if fields, err := statFields(pid); err != nil || fields[6] != strconv.Itoa(session) {
			continue // gone meanwhile, or not ours
		}
		files, _ := filepath.Glob(folder + "/fd/*")
		for _, file := range files {
			target, _ := os.Readlink(file)
			if inode, ok := strings.CutPrefix(target, "socket:["); ok {
				sockets[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	var found []netip.AddrPort
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", session, table))
		if errors.Is(err, os.ErrNotExist) {
			continue // no IPv6, or the process has ended
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			const local, state, inode, listen = 1, 3, 9, "0A"
			fields := strings.Fields(line)
			if len(fields) <= inode || fields[state] != listen || !sockets[fields[inode]] {
				continue
			}
			address, err := parseAddress(fields[local])
			if err != nil {
				return nil, err
			}
			found = append(found, address)
		}
	}
	return found, nil
}

// parseAddress reads an address as /proc/net/tcp has it: 32-bit words in the byte order of the machine, a port as it is
// spoken.
func parseAddress(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	words, err := hex.DecodeString(host)
	number, portErr := strconv.ParseUint(port, 16, 16)
	if err != nil || portErr != nil || len(words)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("address %q", text)
	}
	for i := 0; i < len(words); i += 4 {
		binary.NativeEndian.PutUint32(words[i:], binary.BigEndian.Uint32(words[i:]))
	}
	ip, ok := netip.AddrFromSlice(words)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("address %q", text)
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(number)), nil
}
