-- SPDX-License-Identifier: MIT
-- The command line of the program: what it prints, where, and with which status it ends.
local program = require 'tests.lua.repl.program'

local run = program.run

describe('ridge -e', function()
  it('prints the values of an expression and of a return', function()
    assert.same({ 0, '1\n', '' }, { run { '-e', 'return 1' } })
    assert.same({ 0, '2\n', '' }, { run { '-e', '1+1' } })
    assert.same({ 0, "a\nb\n", '' }, { run { '-e', "'a', 'b'" } })
    assert.same({ 0, '{ 1, 2 }\n', '' }, { run { '-e', '{1, 2}' } })
  end)

  it('prints nothing for a statement or behind a semicolon', function()
    assert.same({ 0, '', '' }, { run { '-e', 'x = 1' } })
    assert.same({ 0, '', '' }, { run { '-e', '1;' } })
  end)

  it('runs several codes with one set of variables, and has arguments', function()
    assert.same({ 0, '6\n', '' }, { run { '-e', 'x = 5', '-e', 'x + 1' } })
    assert.same({ 0, 'a\nb\n', '' }, { run { '-e', 'arg[1], arg[2]', 'a', 'b' } })
  end)

  it('says what is wrong on standard error and ends with 1', function()
    for _, code in ipairs { 'error "boom"', 'x y', 'nonsense', 'for', '{1,' } do
      local status, out, err = run { '-e', code }
      assert.equal(1, status, code)
      assert.equal('', out)
      assert.truthy(err:find '^error: ', code)
    end
  end)

  it('loads nothing of the library that is not named', function()
    assert.same({ 0, 'nil\n', '' }, { run { '-e', 'package.loaded["ridge.ffi.lib"]' } })
    assert.same({ 0, 'nil\nnil\n', '' }, { run { '-e', 'ridge.version();',
      '-e', 'package.loaded["ridge.plot"], package.loaded["ridge.store"]' } })
  end)

  it('calls what is given, and nothing else', function()
    local call = 'require("ridge.host").call'
    assert.same({ 0, 'true\n3\n', '' }, { run { '-e', call .. '("once", math.max, nil, 1, 3)' } })
    local status, _, err = run { '-e', call .. '("once")' }
    assert.equal(1, status)
    assert.truthy(err:find('#2', 1, true), err)
  end)

  it('lets what it does itself come to an end, however busy the machine is', function()
    -- between the press and the end of ridge's own work lies time in which it computes nothing
    local path = os.tmpname()
    finally(function() os.remove(path) end)
    local own = ([[local ffi = require 'ffi'
      ffi.cdef 'int usleep(unsigned);'
      require('ridge.host').interrupt()
      for _ = 1, 14 do ffi.C.usleep(100000) end
      local file = io.open('%s', 'w')
      file:write 'tidied up'
      file:close()]]):format(path)
    local status, out, err = run { '-e', ('loadstring(%q, "@ridge/own.lua")() print "and on"')
      :format(own) }
    assert.equal(130, status)
    assert.truthy(err:find 'interrupted')
    assert.is_nil(out:find('and on', 1, true))
    local file = io.open(path)
    assert.equal('tidied up', file:read '*a')
    file:close()
  end)

  it('ends with 130 when interrupted', function()
    local status, _, err = run { '-e', 'require("ridge.host").interrupt()' }
    assert.equal(130, status)
    assert.truthy(err:find 'interrupted')
  end)
end)

describe('where and before whom the program runs', function()
  it('is a flag (F24)', function()
    assert.same({ 0, '0\n19\n', '' }, { run { '--affinity', '0', '--threads', '2', '--priority',
      '19', '-e', 'ridge.backend.now().affinity, ridge.backend.priority()' } })
    assert.same({ 0, '0,0,0\n', '' }, { run { '--affinity', '0-0,0,0', '-e',
      'ridge.backend.now().affinity' } })
    for _, wrong in ipairs { { '--affinity', 'x' }, { '--affinity', '3-1' },
                             { '--priority', '20' }, { '--priority', 'high' } } do
      local status, _, err = run { wrong[1], wrong[2], '-e', '1' }
      assert.equal(1, status)
      assert.truthy(err:find(wrong[1], 1, true))
    end
  end)
end)

describe('ridge file', function()
  local folder
  local function file(name, text)
    local f = assert(io.open(folder .. '/' .. name, 'w'))
    f:write(text)
    f:close()
    return folder .. '/' .. name
  end

  setup(function() folder = program.folder() end)
  teardown(function() program.remove(folder) end)

  it('gives the file its arguments and takes a first line with #!', function()
    local path = file('a.lua', '#!/usr/bin/env ridge\nprint(arg[0], ..., arg[2])')
    assert.same({ 0, path .. '\tx\t--y\n', '' }, { run { path, 'x', '--y' } })
  end)

  it('is strict about free names', function()
    local status, _, err = run { file('b.lua', 'local x = 1\nprnt(x)') }
    assert.equal(1, status)
    assert.truthy(err:find("undeclared variable 'prnt' (did you mean 'print'", 1, true))
    assert.truthy(err:find('b.lua:2  prnt(x)', 1, true))
    status, _, err = run { file('c.lua', 'y = 1') }
    assert.equal(1, status)
    assert.truthy(err:find('write `local y`', 1, true))
    status, _, err = run { file('c.lua', 'print(ridge.zeros(2))\n') }
    assert.equal(1, status)
    assert.matches("variable 'ridge': write `local ridge = require 'ridge'`", err, 1, true)
  end)

  it('says where an error happened and what led there', function()
    local status, _, err = run { file('d.lua', 'local function f(x)\n  return x.y.z\nend\nf {}\n') }
    assert.equal(1, status)
    assert.truthy(err:find "^error: attempt to index field 'y' %(a nil value%)\n   at ")
    assert.truthy(err:find('d.lua:2  return x.y.z', 1, true))
    assert.truthy(err:find('d.lua:4  f {}', 1, true))
    assert.is_nil(err:find 'traceback')
    _, _, err = run({ folder .. '/d.lua' }, { env = 'RIDGE_TRACE=full' })
    assert.truthy(err:find 'traceback')
    _, _, err = run { '--trace', 'full', folder .. '/d.lua' }
    assert.truthy(err:find 'traceback')
  end)

  it('finds modules beside itself', function()
    file('beside.lua', 'return { value = 7 }')
    assert.same({ 0, '7\n', '' }, { run { file('e.lua', 'print(require("beside").value)') } })
  end)

  it('ends with the status it asks for', function()
    assert.equal(2, (run { file('f.lua', 'os.exit(2)') }))
    assert.equal(2, (run { file('f.lua', 'return 2') }))
    assert.equal(1, (run { file('f.lua', 'os.exit(false)') }))
    assert.equal(0, (run { file('f.lua', 'os.exit(true)') }))
  end)

  it('runs finalizers at os.exit, also from a coroutine', function()
    local path = file('g.lua', [[
      local ffi = require 'ffi'
      local keep = ffi.gc(ffi.new 'int[1]', function() io.stderr:write 'finalized' end)
      local co = coroutine.wrap(function() os.exit(5, keep == nil) end)
      co()]])
    assert.same({ 5, '', 'finalized' }, { run { path } })
  end)

  it('closes what a call that failed has left open, and nothing else', function()
    local status, out, err = run { file('scopes.lua', [[
      local host, C = require 'ridge.host', require 'ridge.ffi.lib'
      C.rg_scope_enter()
      local before = C.rg_scope_depth()
      for opened = 0, 2 do
        print(host.call('once', function()
          for _ = 1, opened do C.rg_scope_enter() end
          error('cut off', 0)
        end))
        print(C.rg_scope_depth() - before)
      end]]) }
    assert.same({ 0, '' }, { status, err })
    assert.equal(('false\tcut off\tfalse\n0\n'):rep(3), out)
  end)

  it('is asked to stop by the first Ctrl-C, and stopped by the second', function()
    local status, out, err = run { file('h.lua', [[
      local host = require 'ridge.host'
      print(host.stopping())
      host.interrupt()
      print(host.stopping())]]) }
    assert.equal(130, status)
    assert.equal('false\ntrue\n', out)
    assert.truthy(err:find 'stopping at the next good place')
    status, out, err = run { file('i.lua', [[
      local host = require 'ridge.host'
      host.interrupt()
      pcall(function() host.interrupt() for i = 1, 10 do print(i) end end)
      print 'not reached']]) }
    assert.equal(130, status)
    assert.equal('', out)
    assert.truthy(err:find 'interrupted')
  end)

  it('has options', function()
    local path = file('j.lua', [[
      local args = require 'ridge.cli.args'
      local opt = args.parse { {'widths', {1, 2}, 'sizes'}, {'device', 'auto', 'where'} }
      print(#opt.widths, opt.device)]])
    assert.same({ 0, '3\tauto\n', '' }, { run { path, '--widths', '1,2,3' } })
    assert.same({ 0, '2\tcpu\n', '' }, { run { '--device', 'cpu', path } })
    local status, out, err = run { path, '--widhts', '1' }
    assert.equal(1, status)
    assert.equal('', out)
    assert.truthy(err:find("did you mean '--widths'?", 1, true))
    status, out = run { path, '--help' }
    assert.equal(0, status)
    assert.truthy(out:find '%-%-widths A,B,%.%. +sizes')
  end)

  it('is found by name', function()
    file('lonely_recipe.lua', '--- What it does.\nprint("ran", ...)')
    local env = 'RIDGE_PATH=' .. folder
    assert.same({ 0, 'ran\tx\n', '' }, { run({ 'run', 'lonely_recipe', 'x' }, { env = env }) })
    local _, out = run({ 'list' }, { env = env })
    assert.truthy(out:find 'lonely_recipe +What it does%.')
    -- once, where several folders have one
    _, out = run({ 'list' }, { env = env .. ':' .. folder })
    assert.equal(1, select(2, out:gsub('lonely_recipe ', '')))
    -- those of each folder
    assert.equal(0, os.execute('mkdir ' .. folder .. '/more'))
    file('more/second_recipe.lua', '--- Another.')
    _, out = run({ 'list' }, { env = env .. ':' .. folder .. '/more' })
    assert.truthy(out:find 'lonely_recipe +What' and out:find 'second_recipe +Another')
    -- in the order of their names, whatever order a folder has them in
    assert.equal(0, os.execute('mkdir ' .. folder .. '/many'))
    local wanted = {}
    for i = 1, 40 do
      file(('many/many_%02d.lua'):format(i * 7 % 41), '--- One of many.')
      wanted[i] = ('many_%02d'):format(i)
    end
    _, out = run({ 'list' }, { env = 'RIDGE_PATH=' .. folder .. '/many' })
    local got, before = {}, ''
    for name in out:gmatch '([^\n ]+)[^\n]*\n' do
      assert.is_true(before < name, name)
      before = name
      if name:find '^many_' then got[#got + 1] = name end
    end
    assert.same(wanted, got)
    local status, _, err = run({ 'run', 'lonely_recip' }, { env = env })
    assert.equal(1, status)
    assert.truthy(err:find("did you mean 'lonely_recipe'?", 1, true))
    -- and where data of one's own lie
    local data = folder .. '/.local/share'
    local recipes = data .. '/ridge/recipes'
    assert.equal(0, os.execute('mkdir -p ' .. recipes))
    assert(os.rename(folder .. '/lonely_recipe.lua', recipes .. '/lonely_recipe.lua'))
    for _, place in ipairs { 'XDG_DATA_HOME=' .. data, 'XDG_DATA_HOME= HOME=' .. folder } do
      assert.same({ 0, 'ran\ty\n', '' }, { run({ 'run', 'lonely_recipe', 'y' }, { env = place }) })
    end
  end)
end)

describe('ridge', function()
  it('runs standard input as a program with -', function()
    assert.same({ 0, '3\n', '' }, { run({ '-' }, { input = 'local x = 3\nprint(x)' }) })
    assert.equal(1, (run({ '-' }, { input = 'error "x"' })))
  end)

  it('reads lines where standard input is no terminal', function()
    assert.same({ 0, '3\n6\n', '' }, { run({}, { input = 'local x = 3\nx\nx * 2\n' }) })
    local status, out = run({}, { input = 'nonsense\n1\n' })
    assert.equal(1, status)
    assert.truthy(out:find '^error: .*\n1\n$')
    status = run({}, { input = 'for i = 1, 2 do' })
    assert.equal(1, status)
  end)

  it('ends where there is no descriptor left to read with, and says so', function()
    local name = os.tmpname()
    local file = assert(io.open(name, 'w'))
    file:write '1 + 1\n'
    file:close()
    local pipe = io.popen("bash -c 'exec <" .. name .. " 2>&1; ulimit -n 4; exec ./ridge'; echo $?")
    local said = pipe:read '*a'
    pipe:close()
    os.remove(name)
    assert.equal('ridge: the terminal cannot be opened: Too many open files\n1\n', said)
  end)

  it('says that a limit leaves OpenBLAS too little, which would ask for it for ever', function()
    if os.getenv 'ASAN_OPTIONS' or os.getenv 'TSAN_OPTIONS' then return end -- they take terabytes
    local function limited(limit, variables)
      local pipe = io.popen(('bash -c %q 2>&1; echo $?'):format(('ulimit %s; %s timeout -s KILL 60 '
        .. "./ridge -e 'print(7)'"):format(limit, variables or '')))
      local said = pipe:read '*a'
      pipe:close()
      return said
    end
    local sentence = '^ridge: OpenBLAS takes %%d+ MB of address space as it is loaded, 128 MB for '
      .. 'each of %%d+ threads?, and ulimit %%-%s leaves less: raise it.-\n1\n$'
    for letter, limit in pairs { v = '-v 200000', d = '-d 100000' } do
      assert.matches(sentence:format(letter), limited(limit))
    end
    assert.matches('of 1 thread, and ulimit -v leaves less: raise it\n1\n',
      limited('-v 200000', 'OMP_NUM_THREADS=1'), 1, true)
    assert.equal('7\n0\n', limited('-v 400000', 'OMP_NUM_THREADS=1'))
  end)

  it('tells its version and its usage', function()
    local status, out = run { '--version' }
    assert.equal(0, status)
    assert.truthy(out:find '^ridge %d+%.%d+%.%d+ %(LuaJIT')
    status, out = run { '--help' }
    assert.equal(0, status)
    for _, name in ipairs { 'doctor', 'help', 'list', 'run' } do
      assert.truthy(out:find('\n  ' .. name, 1, true), name)
    end
  end)

  it('refuses what it does not know, naming the near miss', function()
    for _, case in ipairs {
      { { 'hlep' }, "did you mean 'help'?" }, { { '--thraeds', '2' }, "did you mean 'threads'?" },
        { { '--quite' }, "did you mean 'quiet'?" }, { { '--no-jti' }, "did you mean 'no-jit'?" },
        { { '--tarce' }, "did you mean 'trace'?" },
        { { '--prioritty' }, "did you mean 'priority'?" },
        { { '--versoin' }, "did you mean 'version'?" }, { { '--hepl' }, "did you mean 'help'?" },
      { { 'none.lua' }, "there is no file 'none.lua'" }, { { '--threads' }, 'needs a value' },
      { { '--threads', 'x' }, 'is no number' }, { { '--threads', '0.5' }, 'is no number' },
      { { '--seed', '-1' }, 'no whole number' }, { { '--device', 'cuda:0' }, 'no device' },
      { { '-e' }, 'needs code' }, { { '--trace', 'x' }, 'neither' },
      { { '/' }, 'there is no file' }, { { '--quiet=no' }, '--quiet takes no value' },
      { { '--no-jit=', '-e', '1' }, '--no-jit takes no value' },
      { { '--threads=1e300' }, '1e300 is not in 0 .. 1024' },
      { { '--seed=9007199254740993' }, "'9007199254740993' is no whole number" },
    } do
      local status, out, err = run(case[1])
      assert.equal(1, status, case[2])
      assert.equal('', out)
      assert.truthy(err:find(case[2], 1, true), err)
    end
  end)

  it('helps', function()
    local status, out = run { 'help', 'ridge.near.hint' }
    assert.equal(0, status)
    assert.truthy(out:find('ridge.near.hint(word, names)', 1, true))
    status, out = run { 'help', 'run' }
    assert.equal(0, status)
    assert.truthy(out:find('usage: ridge run NAME', 1, true))
    status, out = run { 'run', '--help' }
    assert.equal(0, status)
    assert.matches('^usage: ridge run %[options%] NAME .*\n  %-%-help  this text\n$', out)
    local err
    status, out, err = run { 'help', 'qqqqqq' }
    assert.same({ 1, '' }, { status, out })
    assert.is_nil(err:find('commands:', 1, true)) -- none is like it
    assert.truthy(select(3, run { 'help', 'hlep' }):find('; commands: help\n', 1, true))
  end)

  it('examines the machine', function()
    local status, out = run { 'doctor' }
    assert.equal(0, status)
    for _, name in ipairs { 'ridge', 'processor', 'oneDNN', 'OpenBLAS', 'GPU' } do
      assert.truthy(out:find('\n' .. name) or out:find('^' .. name), name)
    end
    assert.is_nil(out:find 'does not answer')
  end)

  it('takes flags for threads, the seed and the compiler', function()
    assert.same({ 0, '1\n', '' }, { run { '--threads', '1', '-e',
      '(select(2, require("ridge.host").machine()))' } })
    local code = 'ridge.rand(3):tolist()[1]'
    local _, first = run { '--seed', '7', '-e', code }
    local _, second = run { '--seed=7', '-e', code }
    local _, third = run { '--seed=8', '-e', code }
    assert.equal(first, second)
    assert.not_equal(first, third)
    assert.same({ 0, 'false\n', '' }, { run { '--no-jit', '-e', '(jit.status())' } })
  end)

  it('speaks numbers as C does in any locale', function()
    assert.same({ 0, '0.5\n', '' }, { run({ '-e', '0.5' }, { env = 'LC_ALL=de_DE.UTF-8' }) })
  end)

  it('takes the sources of RIDGE_LUA before its own', function()
    local folder = program.folder()
    os.execute('mkdir -p ' .. folder .. '/ridge')
    local f = io.open(folder .. '/ridge/only_here.lua', 'w')
    f:write 'return { where = debug.getinfo(1, "S").source }'
    f:close()
    local status, out = run({ '-e', 'require("ridge.only_here").where' },
      { env = 'RIDGE_LUA=' .. folder })
    program.remove(folder)
    assert.equal(0, status)
    assert.equal('@' .. folder .. '/ridge/only_here.lua\n', out)
  end)
end)

describe('ridge -i', function()
  it('runs a file and keeps its variables', function()
    local folder = program.folder()
    local path = folder .. '/i.lua'
    local f = io.open(path, 'w')
    f:write 'local function double(x) return 2 * x end\nlocal seven = 7\n'
    f:close()
    local status, out = run({ '-i', path }, { input = 'double(seven)\n' })
    program.remove(folder)
    assert.equal(0, status)
    assert.equal('14\n', out)
  end)
end)

describe("require 'ridge' from plain luajit", function()
  it('finds core and sources in ridge.so alone', function()
    local out = os.tmpname()
    local code = [[
      package.path, package.cpath = "", "build/?.so"
      local ridge = require "ridge"
      local inspect = require "ridge.repl.inspect"
      print(ridge.ones(2, 3):sum():item(), inspect.value {1}, ridge.stopping())
      print(package.loaded["ridge.host"].executable)]]
    local status = os.execute(("env -u LUA_PATH -u RIDGE_LUA luajit -e '%s' > %s 2>&1")
      :format(code, out))
    local file = io.open(out)
    local text = file:read '*a'
    file:close()
    os.remove(out)
    assert.equal('6\t{ 1 }\tfalse\nfalse\n', text)
    assert.equal(0, status)
  end)
end)

describe('a mistake on the command line', function()
  it('is said in one way by every command, with where to look', function()
    for _, words in ipairs { { 'list', '--zork' }, { 'list', 'x' }, { 'run' }, { 'run', '--zork' },
        { 'run', 'nosuch' }, { 'help', 'zzqqy' }, { 'bench' }, { 'bench', 'nosuch' }, { 'ab' },
        { 'best' }, { 'batch-size' }, { 'batch-size', 'nosuch' }, { 'calibrate', '--threads', 'x' },
        { 'compare' }, { 'compare', '/none/a', '/none/b', '--match-all' }, { 'db' },
        { 'doctor', '--zork' }, { 'doctor', '--device', 'x' }, { 'export' }, { 'merge' },
        { 'plot' }, { 'query' }, { 'replay' }, { 'replot' }, { 'replot', '/none.png' },
        { 'retry' }, { 'show' }, { 'sweep' }, { 'sweeps', 'x' }, { 'top' }, { 'watch' } } do
      local status, out, err = run(words)
      assert.equal(1, status, words[1])
      assert.equal('', out)
      assert.matches(('^ridge %s: [^\n]+\ntry: ridge %s %%-%%-help\n$'):format(
        (words[1]:gsub('%-', '%%-')), (words[1]:gsub('%-', '%%-'))), err)
      assert.equal(0, (run { words[1], '--help' }))
    end
  end)

  it('is a word more than the command takes', function()
    for _, words in ipairs { { 'show', '1', '2' }, { 'top', 'a', 'b' }, { 'export', 'a', 'b' },
        { 'best', 'a', 'b' }, { 'watch', 'a', 'b' }, { 'retry', 'a', 'b' }, { 'replot', 'a', 'b' },
        { 'query', 'a', 'b', 'c' }, { 'plot', 'map', 'b', 'c' }, { 'db', 'info', 'b', 'c' } } do
      local status, _, err = run(words)
      assert.equal(1, status)
      assert.matches(("'%s' is too much"):format(words[#words]), err)
    end
  end)
end)

describe('standard input as a program', function()
  it('has ridge without asking for it, and stays strict', function()
    assert.same({ 0, '2\n', '' }, { run({ '-' }, { input = 'print(ridge.ones(2):sum():item())' }) })
    local status, _, err = run({ '-' }, { input = 'x = 1' })
    assert.equal(1, status)
    assert.matches("assignment to undeclared variable 'x'", err)
    status, _, err = run({ '-' }, { input = 'print(rigde)' })
    assert.equal(1, status)
    assert.matches("did you mean 'ridge'", err)
  end)
end)

describe('ridge.doctor()', function()
  it('prints what the command prints, and neither a place nor a value behind it', function()
    local status, out, err = run { '-e', 'ridge.doctor { seconds = 0.1 }' }
    assert.same({ 0, '' }, { status, err })
    assert.matches('^ridge +%d', out)
    assert.is_nil(out:find '%[%d+%]:%d+:')
    assert.is_nil(out:find '\n0\n')
    status, out, err = run { '-e', 'ridge.doctor { secnds = 1 }' }
    assert.same({ 1, '' }, { status, out })
    assert.matches('seconds', err)
    assert.is_nil(err:find 'try:')
  end)
end)

describe('ridge help', function()
  it('finds commands in any case, as they are typed, and near ones', function()
    for _, topic in ipairs { 'top', 'Top', 'ridge top' } do
      local status, out = run { 'help', topic }
      assert.equal(0, status)
      assert.matches('^usage: ridge top SWEEP', out)
    end
    for _, words in ipairs { { 'help', 'batch size' }, { 'help', 'batch', 'size' },
      { 'help', 'batch_size' }, { 'help', 'Batch-Size' } } do
      local status, out = run(words)
      assert.equal(0, status)
      assert.matches('^usage: ridge batch%-size MODEL', out)
    end
    local status, out, err = run { 'help', 'ridge.doctor' }
    assert.same({ 0, '' }, { status, err })
    assert.matches('as in the shell: ridge doctor', out)
    status, out, err = run { 'help', 'calibrat' }
    assert.same({ 1, '' }, { status, out })
    assert.matches('commands: calibrate', err)
  end)
end)
