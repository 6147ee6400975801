package containerd

import (
	"bytes"
	"fmt"
	"strconv"
)

// statement is one top-level `key = value` of a TOML document, as byte offsets.
type statement struct {
	key        string
	start      int // first byte of the key
	valueStart int
	valueEnd   int
}

// document is what an edit needs to know of a TOML file: the statements before
// the first table header, and where that header begins.
type document struct {
	data       []byte
	statements []statement
	bodyStart  int // offset of the first table header; len(data) when there is none
}

// scanTop reads the statements before the first table header. The input must be
// valid TOML: scanTop checks only what it steps over.
func scanTop(data []byte) (document, error) {
	d := document{data: data, bodyStart: len(data)}
	i := 0
	for {
		i = skipBlank(data, i)
		if i >= len(data) {
			return d, nil
		}
		if data[i] == '[' {
			d.bodyStart = i
			return d, nil
		}
		s, err := scanStatement(data, i)
		if err != nil {
			return d, err
		}
		d.statements = append(d.statements, s)
		i = s.valueEnd
	}
}

// find returns the statement of a key.
func (d document) find(key string) (statement, bool) {
	for _, s := range d.statements {
		if s.key == key {
			return s, true
		}
	}
	return statement{}, false
}

// scanStatement reads `key = value` at i. A dotted key is returned as written.
func scanStatement(data []byte, i int) (statement, error) {
	s := statement{start: i}
	for i < len(data) && data[i] != '=' {
		switch data[i] {
		case '"', '\'':
			end, err := skipString(data, i)
			if err != nil {
				return s, err
			}
			i = end
		case '\n':
			return s, fmt.Errorf("no '=' after the key at offset %d", s.start)
		default:
			i++
		}
	}
	if i >= len(data) {
		return s, fmt.Errorf("no '=' after the key at offset %d", s.start)
	}
	s.key = unquoteKey(string(bytes.TrimSpace(data[s.start:i])))
	i++
	for i < len(data) && (data[i] == ' ' || data[i] == '\t') {
		i++
	}
	s.valueStart = i
	end, err := skipValue(data, i)
	s.valueEnd = end
	return s, err
}

// unquoteKey returns a simple quoted key without its quotes.
func unquoteKey(k string) string {
	if len(k) >= 2 && k[0] == '\'' && k[len(k)-1] == '\'' {
		return k[1 : len(k)-1]
	}
	if len(k) >= 2 && k[0] == '"' {
		if u, err := strconv.Unquote(k); err == nil {
			return u
		}
	}
	return k
}

// skipBlank skips white space, line ends and comments.
func skipBlank(data []byte, i int) int {
	for i < len(data) {
		switch data[i] {
		case ' ', '\t', '\r', '\n':
			i++
		case '#':
			for i < len(data) && data[i] != '\n' {
				i++
			}
		default:
			return i
		}
	}
	return i
}

// skipString returns the offset after the string that begins at i.
func skipString(data []byte, i int) (int, error) {
	quote := data[i : i+1]
	if triple := bytes.Repeat(quote, 3); bytes.HasPrefix(data[i:], triple) {
		for j := i + 3; j < len(data); j++ {
			if quote[0] == '"' && data[j] == '\\' {
				j++
				continue
			}
			if bytes.HasPrefix(data[j:], triple) {
				for j+3 < len(data) && data[j+3] == quote[0] { // up to two quotes may stand before the end
					j++
				}
				return j + 3, nil
			}
		}
		return i, fmt.Errorf("string at offset %d has no end", i)
	}
	for j := i + 1; j < len(data) && data[j] != '\n'; j++ {
		switch {
		case quote[0] == '"' && data[j] == '\\':
			j++
		case data[j] == quote[0]:
			return j + 1, nil
		}
	}
	return i, fmt.Errorf("string at offset %d has no end", i)
}

// skipValue returns the offset after the value that begins at i.
func skipValue(data []byte, i int) (int, error) {
	if i >= len(data) {
		return i, fmt.Errorf("value missing at the end of the file")
	}
	switch data[i] {
	case '"', '\'':
		return skipString(data, i)
	case '[':
		_, end, err := scanList(data, i, ']')
		return end, err
	case '{':
		_, end, err := scanList(data, i, '}')
		return end, err
	}
	j := i
	for j < len(data) && !bytes.ContainsRune([]byte(",]}#\r\n"), rune(data[j])) {
		j++
	}
	return i + len(bytes.TrimRight(data[i:j], " \t")), nil
}

// scanList steps over an array or inline table at i, and returns the end offset
// of its last element (0 when it is empty) and the offset after its closing byte.
func scanList(data []byte, i int, closing byte) (lastEnd, end int, err error) {
	j := i + 1
	for {
		j = skipBlank(data, j)
		switch {
		case j >= len(data):
			return 0, j, fmt.Errorf("no %q for the bracket at offset %d", closing, i)
		case data[j] == closing:
			return lastEnd, j + 1, nil
		case data[j] == ',':
			j++
			continue
		}
		if closing == '}' {
			s, serr := scanStatement(data, j)
			if serr != nil {
				return 0, j, serr
			}
			lastEnd, j = s.valueEnd, s.valueEnd
			continue
		}
		next, verr := skipValue(data, j)
		if verr != nil {
			return 0, j, verr
		}
		if next == j {
			return 0, j, fmt.Errorf("unexpected %q at offset %d", data[j], j)
		}
		lastEnd, j = next, next
	}
}

// lineEnd returns the line ending that the file uses; "\n" when it has no line.
func lineEnd(data []byte) string {
	if i := bytes.IndexByte(data, '\n'); i > 0 && data[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}
