-- SPDX-License-Identifier: MIT
-- The prompt as a user has it: `ridge` in a pseudo-terminal.
local program = require 'tests.lua.repl.program'

describe('the prompt', function()
  local home, term

  before_each(function()
    home = program.folder()
    term = program.prompt(home)
    term:expect '>> '
  end)

  after_each(function()
    term:stop()
    program.remove(home)
  end)

  --- Type a line and wait for the next prompt.
  local function enter(line, wanted)
    term:send(line .. '\r')
    local text = wanted and term:expect(wanted) or ''
    return text .. term:expect '>> '
  end

  it('shows values and ends with Ctrl-D', function()
    enter('6*7', '\n42\n')
    enter("'a' .. 'b'", "\n'ab'\n")
    enter('6*7;', '6*7;\n')
    assert.equal(0, term:leave())
  end)

  it('ends with a Ctrl-D that was pressed before the prompt came', function()
    -- the terminal's own line mode turns it into a zero byte
    for _ = 1, 8 do
      local again = program.prompt(home)
      again:expect '>> '
      again:send 'print("a" .. "b")\r'
      again:expect 'ab\n'
      again:send '\4'
      assert.equal(0, again:wait())
    end
  end)

  it('does not take Ctrl-Space for the beginning of something', function()
    enter('6*7', '42\n')
    term:send '\0'
    term:send '\4'
    assert.equal(0, term:wait())
  end)

  it('greets with one line', function()
    local again = program.prompt(home)
    local text = again:expect '>> '
    again:stop()
    assert.truthy(text:find '^ridge %d+%.%d+%.%d+ · cpu .+ · %?help\n>> $')
  end)

  it('goes on after an error', function()
    enter('error("boom")', 'error: boom\n')
    enter('nil + 1', 'error: attempt to perform arithmetic')
    enter('nonsense', "error: undeclared variable 'nonsense'")
    enter('x y', "error: ")
    enter('1', '\n1\n')
  end)

  it('reads a text of several lines', function()
    term:send 'for i = 1, 2 do\r'
    term:expect '.. '
    term:send 'print(i * 10)\r'
    term:expect '.. '
    enter('end', '10\n20\n')
    term:send '{1,\r'
    term:expect '.. '
    enter('2}', '{ 1, 2 }\n')
  end)

  it('keeps top-level locals', function()
    enter 'local answer = 42'
    enter('answer', '\n42\n')
  end)

  it('completes with TAB', function()
    enter 'alphabet = 26'
    enter('alph\t', '\n26\n')
    enter('string.upp\t"a")', "'A'")
    term:send 'string.re\t\t'
    term:expect 'rep'
    term:expect 'reverse'
    term:send '\21'
    enter('1', '\n1\n')
  end)

  it('completes file names in strings', function()
    io.open(home .. '/a_long_name.txt', 'w'):close()
    enter(("io.open('%s/a_lo\t') ~= nil"):format(home), '\ntrue\n')
  end)

  it('recalls what was typed, also in the next session', function()
    enter('111+1', '\n112\n')
    term:send '\27[A'
    term:expect '111+1'
    enter('', '\n112\n')
    term:send 'if true then\r'
    term:expect '.. '
    enter 'x = 5 end'
    term:leave()
    term = program.prompt(home)
    term:expect '>> '
    enter('x', "undeclared variable 'x'")
    term:send '\27[A\27[A'
    enter ''
    enter('x', '\n5\n')
    term:send '\18' -- Ctrl-R
    term:send '111'
    term:expect '111+1'
    enter('', '\n112\n')
  end)

  it('recalls once what the last session ended with and this one began with', function()
    enter('111+1', '\n112\n')
    enter('222+2', '\n224\n')
    term:leave()
    term = program.prompt(home)
    term:expect '>> '
    enter('222+2', '\n224\n')
    term:send '\16\16' -- Ctrl-P; the arrows leave out what is on the line already
    term:expect '111+1'
    enter('', '\n112\n')
  end)

  it('clears the line, and the lines before it, with Ctrl-C', function()
    term:send 'some text'
    term:expect 'some text'
    term:send '\3'
    term:expect '^C\n>> '
    enter('1', '\n1\n')
    term:send 'for i = 1, 2 do\r'
    term:expect '.. '
    term:send '\3'
    term:expect '^C\n>> '
    enter('2', '\n2\n')
  end)

  it('edits wide characters', function()
    enter("'größe' .. 'x\127y'", "\n'größey'\n")
    enter("#'ö'", '\n2\n')
  end)

  it('edits with emacs keys', function()
    enter 'world\1hello = 5 --\5'
    enter('hello', '\n5\n')
    enter('4 + 4 22\23', '\n8\n')    -- Ctrl-W takes the word
    enter('3\0212 + 2', '\n4\n')     -- Ctrl-U takes the line
  end)

  it('edits with the keys that terminals have besides', function()
    for _, key in ipairs { { '\27[H', '\27[F' }, { '\27[1~', '\27[4~' } } do
      enter('7' .. key[1] .. '4' .. key[2] .. '0', '\n470\n') -- begin and end of the line
    end
    enter('x12\1\27[3~', '\n12\n')                    -- Delete takes what is under the cursor
    enter('11 + 22\27[1;5D3', '\n333\n')              -- a word back
    enter('11 + 22\1\27[1;5C5', '\n137\n')           -- a word on
    enter('500 + 1\1\6\27[3~', '\n51\n')             -- Ctrl-F, then Delete
    enter('4\2552', '\n42\n')                         -- a byte that is no text is none
    for _, arrow in ipairs { { '\27[A', '\27[B' }, { '\27OA', '\27OB' } } do
      enter('600 + 1', '\n601\n')
      enter('700 + 1', '\n701\n')
      enter(arrow[1] .. arrow[1], '\n601\n')
      enter(arrow[1] .. arrow[1] .. arrow[2], '\n601\n')
    end
  end)

  it('gives the terminal back before a signal ends it', function()
    term:stop()
    local pty = require 'tests.lua.repl.pty'
    -- SIGHUP and SIGQUIT may be ignored where tests run, which a shell cannot undo
    local shell = pty.spawn({ '/bin/sh', '-c', ('trap "" 1 3; stty -a; (trap - 1 3; '
      .. 'exec sh -c \'echo pid $$ .; exec %s\'); stty -a; echo "the" "end"')
      :format(program.path) },
      { TERM = 'xterm', HOME = home, PATH = os.getenv 'PATH' })
    local before = shell:expect '-echoprt'
    local pid = tonumber(shell:expect ' .':match 'pid (%d+) %.')
    shell:expect '>> ' -- and perhaps it does not wait for keys yet
    assert.equal(0, require('ffi').C.kill(pid, 15))
    local after = shell:expect '-echoprt'
    shell:expect 'the end'
    shell:wait()
    for _, mode in ipairs { 'icanon', 'echo', 'isig', 'icrnl', 'opost' } do
      assert.equal(before:find('%s' .. mode) ~= nil, after:find('%s' .. mode) ~= nil, mode)
      assert.truthy(after:find('%s' .. mode), mode)
    end
  end)

  it('helps', function()
    enter('?ridge.near.hint', 'ridge.near.hint(word, names)')
    enter('ridge.near.hint?', 'ridge.near.hint(word, names)')
    enter('?"slips of the hand"', 'ridge.near.distance')
    enter('?', 'Ctrl-R')
    enter('?distnace', 'near: distance')
  end)

  it('follows the size of the window and stops with Ctrl-Z', function()
    require('ffi').C.kill(term.pid, 28) -- SIGWINCH
    enter('1', '\n1\n')
    term:send '40 +'
    term:expect '40 +'
    require('ffi').C.kill(term.pid, 28) -- what was typed stays
    os.execute 'sleep 0.2'              -- it comes while the prompt waits, not with the next key
    enter(' 2', '\n42\n')
    require('ffi').C.kill(term.pid, 20) -- SIGTSTP
    require('ffi').C.kill(term.pid, 18) -- SIGCONT
    enter('2', '\n2\n')
  end)

  it('survives what a session may do to itself', function()
    enter 'io.stdin:close()'
    enter('1', '\n1\n')
    enter 'string.find = nil'
    enter 'table.concat = nil'
    assert.equal(0, term:leave())
  end)

  it('survives a write to a closed pipe', function()
    enter 'p = io.popen("true", "w")'
    enter 'for i = 1, 1e5 do p:write("xxxxxxxxxx") end'
    enter('1', '\n1\n')
  end)

  -- A sanitizer's shadow memory alone is beyond the limit set here.
  local unless_sanitized = os.getenv 'ASAN_OPTIONS' and pending or it

  unless_sanitized('ends memory that runs out in an error', function()
    term:stop()
    local pty = require 'tests.lua.repl.pty'
    term = pty.spawn({ '/bin/sh', '-c', 'ulimit -d 300000; exec ' .. program.path },
      { TERM = 'xterm', HOME = home, PATH = os.getenv 'PATH' })
    term:expect '>> '
    enter('t = {} for i = 1, 1e9 do t[i] = ("x"):rep(2^20) .. i end', 'error: not enough memory')
    enter 't = nil collectgarbage()'
    enter('1', '\n1\n')
  end)

  it('knows help, exit and quit, unless they are variables', function()
    enter('help', 'what the library has')
    enter 'quit = 5'
    enter('quit', '5\n')
    term:send 'exit()\r'
    assert.equal(0, term:wait())
    local again = program.prompt(home)
    again:expect '>> '
    again:send 'quit\r'
    assert.equal(0, again:wait())
  end)

  it('ends with the status of os.exit', function()
    term:send 'os.exit(3)\r'
    assert.equal(3, term:wait())
  end)

  it('gives the terminal back at os.exit as it found it', function()
    local pty = require 'tests.lua.repl.pty'
    -- each is a mode that the line editor changes while it lives, and that no line puts back
    for _, mode in ipairs { 'noflsh', '-icrnl', 'onlret' } do
      term:stop()
      term = pty.spawn({ '/bin/sh', '-c', 'stty ' .. mode .. '; before=$(stty -g); '
        .. program.path .. '; echo status $?; [ "$before" = "$(stty -g)" ] && echo as it was' },
        { TERM = 'xterm', HOME = home, PATH = os.getenv 'PATH',
          RIDGE_LUA = os.getenv 'RIDGE_LUA' or '' })
      term:expect '>> '
      term:send 'os.exit(3)\r'
      term:expect 'status 3'
      term:expect 'as it was'
    end
  end)

  it('reads plain lines on a dumb terminal', function()
    term:stop()
    term = program.prompt(home, { TERM = 'dumb' })
    term:expect '>> '
    enter('6*7', '42')
    term:send 'while true do end\r'
    os.execute 'sleep 0.2'
    term:send '\3'
    term:expect 'interrupted'
    enter('1', '1\n')
    assert.equal(0, term:leave())
  end)

  it('says that it reads without editing, and ends where even that fails', function()
    term:stop()
    local pty = require 'tests.lua.repl.pty'
    term = pty.spawn({ '/bin/sh', '-c', 'ulimit -n 4; exec ' .. program.path },
      { TERM = 'xterm', HOME = home, PATH = os.getenv 'PATH' })
    term:expect('ridge: the terminal cannot be opened: Too many open files; '
      .. 'lines are read without editing')
    term:expect 'ridge: the terminal cannot be opened: Too many open files'
    assert.equal(1, term:wait())
  end)

  it('has colour only where the terminal takes it', function()
    term:stop()
    term = program.prompt(home, { NO_COLOR = '' })
    term:send '42\r'
    while not term.output:find('\27[36m42\27[0m', 1, true) do term:pump() end
  end)
end)
