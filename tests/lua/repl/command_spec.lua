-- SPDX-License-Identifier: MIT
-- The commands of the prompt, in a session without a terminal.
local session = require 'ridge.repl.session'

local function new()
  local out = {}
  local s = session.new { write = function(text) out[#out + 1] = text end }
  return function(line)
    out = {}
    local outcome = s:run(line)
    return table.concat(out), outcome
  end, s
end

--- Run with standard output caught.
local function printed(f)
  local path = os.tmpname()
  local file, before = assert(io.open(path, 'w')), io.stdout
  io.stdout = file -- luacheck: ignore 122
  local ok, err = pcall(f)
  io.stdout = before -- luacheck: ignore 122
  file:close()
  file = assert(io.open(path))
  local text = file:read '*a'
  file:close()
  os.remove(path)
  assert(ok, err)
  return text
end

describe('a command of the prompt', function()
  it('is found by its name, with a near miss for a wrong one', function()
    local run = new()
    local text, outcome = run '%benhc 1'
    assert.equal('failed', outcome)
    assert.truthy(text:find("there is no command %benhc (did you mean 'bench'?)", 1, true))
    text = run '%'
    for name in ('time bench prof mem who run sql history tb'):gmatch '%a+' do
      assert.truthy(text:find('\n%' .. name, 1, true), name)
    end
    assert.equal('2\n', run '1 + 1')
  end)

  it('has help', function()
    local help = require 'ridge.repl.help'
    assert.truthy(help.lookup('%bench', {}):find('--rigorous', 1, true))
    local text, reason = help.lookup('%benhc', {})
    assert.is_nil(text)
    assert.truthy(reason:find('bench', 1, true))
  end)

  it('reads code that goes on in the next line', function()
    local run = new()
    assert.equal('incomplete', select(2, run '%time for i = 1, 2 do'))
    assert.equal('done', select(2, run '%time for i = 1, 2 do\nend'))
    assert.equal('failed', select(2, run '%time )'))
  end)

  it('%time shows the value, the time, and what stays in memory', function()
    local run = new()
    assert.truthy(run('%time 6 * 7'):find '^42\n[%d.]+.*s')
    local text = run '%time x = ridge.ones(1024, 1024);'
    assert.truthy(text:find('+4 MB of tensors', 1, true))
  end)

  it('%bench gives a median inside its interval, rates and the roof', function()
    local run, s = new()
    s.ceilings = { [require('ridge').num_threads()] = { threads = 1, since = 'made up',
      raised = true, by_name = { ['fma.f32'] = { value = 1e18 }, ['bw.l1'] = { value = 1e9 } } } }
    run 'x = ridge.ones(64, 64)'
    local text, outcome = run '%bench --quick x + 1'
    assert.equal('done', outcome)
    assert.truthy(text:find('a plan of 1 operation: add', 1, true))
    assert.truthy(text:find 'median [%d.]+.*s, 95 %% interval')
    -- 32 KB through 1 GB/s: 32.8 us
    assert.truthy(text:find('the roof is 32.8', 1, true))
    assert.truthy(text:find('reading from L1', 1, true))
    local r = s.env._
    assert.is_true(r.ci_lo <= r.med and r.med <= r.ci_hi)
    -- the arithmetic is that of the results: 2 * 64^3 FLOP at 1 GFLOP/s take 524 us
    s.ceilings[require('ridge').num_threads()].by_name = { ['fma.f32'] = { value = 1e9 },
      ['bw.l1'] = { value = 1e18 } }
    text = run '%bench --quick x:matmul(x)'
    assert.truthy(text:find 'the roof is 524[^\n]+, by f32 arithmetic')
    text = run '%bench --quick (x:matmul(x) + 1):abs():sum():neg()'
    assert.truthy(text:find '^a plan of 5 operations: matmul, add, abs, sum, %.%.%.\n')
  end)

  it('%bench measures ceilings again, once, where something was faster', function()
    local run, s = new()
    local measure, times = require 'ridge.measure', 0
    local before = measure.calibrate
    measure.calibrate = function() -- the half of what was known, and the double
      times = times + 1
      return { { name = 'fma.f32', value = 1 }, { name = 'bw.l1', value = 4e-6 } }
    end
    local here = { threads = 1, since = 'made up',
      by_name = { ['fma.f32'] = { value = 2 }, ['bw.l1'] = { value = 2e-6 } } }
    s.ceilings = { [require('ridge').num_threads()] = here }
    run 'x = ridge.ones(64, 64)'
    for _ = 1, 2 do
      local text = run '%bench --quick x + 1'
      assert.matches('above the roof: the counts are too high', text, 1, true)
    end
    measure.calibrate = before
    assert.equal(1, times)
    assert.same({ 2, 4e-6 }, { here.by_name['fma.f32'].value, here.by_name['bw.l1'].value })
  end)

  it('%bench measures what needs nothing of the prompt in fresh processes', function()
    local run, s = new()
    s.ceilings = { [require('ridge').num_threads()] = { threads = 1, since = 'made up',
      raised = true, by_name = {} } }
    local text = run '%bench --quick ridge.ones(8, 8):exp()'
    assert.truthy(text:find('in 5 passes, each in a fresh process', 1, true), text)
    assert.equal(5, s.env._.procs)
    -- a plan, that is: what is timed as Lua calls it is timed here
    assert.is_nil(run('%bench --quick --eager ridge.ones(8, 8):exp()'):find 'fresh process')
    run 'x = ridge.ones(8, 8)'
    text = run '%bench --quick x:exp()'
    assert.truthy(text:find('%d s of this machine, in one process; the interval holds'), text)
    local r = s.env._
    assert.is_nil(r.procs)
    assert.matches('rank%+t%+', r.ci_how)
    assert.is_true(r.ci_hi / r.ci_lo > 1.02)
    -- a variable of the prompt that hides a name everybody has
    run 'ridge = { ones = function() return x end }'
    assert.is_false(require('ridge.repl.fresh').is_portable('ridge.ones(8)', s.env))
    assert.is_true(require('ridge.repl.fresh').is_portable('math.pi', s.env))
  end)

  it('%bench takes functions and plans, and says why something is no plan', function()
    local run = new()
    run 'x = ridge.ones(4) function f() return x:sum():item() end p = ridge.capture(x.relu, x)'
    local said = run('%bench --quick f')
    assert.truthy(said:find('timed as Lua calls it', 1, true), said)
    assert.truthy(run('%bench --quick p'):find('1 operation: relu', 1, true))
    assert.truthy(run('%bench --quick 1 + 1'):find('it calls no operation', 1, true))
    assert.truthy(run('%bench --quick --eager x + x'):find('as asked', 1, true))
    assert.truthy(run('%bench --fast x'):find('unknown option --fast', 1, true))
    assert.truthy(run('%bench nil + x'):find('add: a tensor or a number', 1, true))
    assert.truthy(run('%bench'):find('error: %bench', 1, true))
  end)

  it('%prof counts each operation once', function()
    local run = new()
    run 'x = ridge.ones(8, 8)'
    local text = run '%prof for i = 1, 50 do x:matmul(x):relu() end'
    assert.truthy(text:find 'matmul%s+%S*%s+50%s')
    assert.truthy(text:find 'relu%s+50%s')
    assert.truthy(text:find 'matmul[^\n]+FLOP/s')
    assert.is_nil(run('%prof x:t():contiguous()'):find('FLOP/s', 1, true)) -- it computes nothing
    assert.equal('failed', select(2, run '%prof error "x"'))
    assert.equal('1\n', run '1')
  end)

  it('%prof finds the line of Lua that takes long', function()
    local program = require 'tests.lua.repl.program'
    local status, out = program.run({}, { input = 'function slow()\n  local s = ""\n'
      .. '  for i = 1, 2e6 do s = tostring(i) end\nend\n%prof slow()\n' })
    assert.equal(0, status)
    assert.truthy(out:find '%[1%]:3%s+[%d.]+ %%')
  end)

  it('%trace names what could not be compiled', function()
    local run = new()
    local text = run '%trace for i = 1, 1000 do local t = {} for k in pairs(t) do t[k] = 1 end end'
    assert.truthy(text:find '%d+ traces? %a+ compiled, %d+ given up')
  end)

  it('%trace names what was given up most often first, then by its place', function()
    local run, s = new()
    local jit = require 'jit'
    local attach, note = jit.attach, nil
    jit.attach = function(f, what) note = what and f or nil end -- luacheck: ignore 122
    local util = require 'jit.util'
    local funcinfo = util.funcinfo
    util.funcinfo = function(f) return { loc = f } end -- luacheck: ignore 122
    s.values = function() -- what the compiler would tell
      for place, times in pairs { ['a:1'] = 1, ['b:1'] = 3, ['c:1'] = 1, ['d:1'] = 7,
        ['e:1'] = 3 } do
        for _ = 1, times do note('abort', 1, place, 0, 'some reason') end
      end
    end
    local ok, text = pcall(run, '%trace x = 1')
    jit.attach, util.funcinfo = attach, funcinfo -- luacheck: ignore 122
    assert(ok, text)
    local order = {}
    for times, place in text:gmatch '(%d+)%s+(%l):1' do order[#order + 1] = times .. place end
    assert.same({ '7d', '3b', '3e', '1a', '1c' }, order)
  end)

  it('%mem lists tags, and lines while they are counted', function()
    local run = new()
    assert.matches("takes 'lines on' or 'lines off', got 'lines'", run '%mem lines')
    assert.matches("takes 'lines on' or 'lines off', got 'on'", run '%mem on')
    assert.equal('memory is counted by line from here on\n', run '%mem lines on')
    run "kept = ridge.memory.tag('mine', ridge.zeros, 25)"
    local text = run '%mem'
    assert.matches('\nline +live +blocks +peak +module\n', text)
    assert.matches('\n%[%d+%]:1 +100 B +1 +100 B\n', text)
    assert.matches('\ntag +live +blocks +peak\n.*mine +100 B +1 +100 B\n', text)
    assert.equal('memory is counted by line no more\n', run '%mem lines off')
    run 'other = ridge.zeros(26)'
    assert.is_nil(run('%mem'):match '104 B +1 +104 B')
  end)

  it('%who and %mem name variables and their bytes', function()
    local run = new()
    assert.equal('no variables yet\n', run '%who')
    run 'weights = ridge.zeros(256, 256) n = 5'
    run 'ridge'
    local text = run '%who'
    assert.truthy(text:find 'weights%s+Tensor%s+256 KB%s+f32%[256,256%]')
    assert.truthy(text:find '\nn%s+number%s+5\n')
    assert.is_nil(text:find '\nridge')
    assert.is_nil(run('%who wei'):find '\nn ')
    run 'few = ridge.zeros(3)'
    text = run '%mem'
    assert.truthy(text:find 'weights%s+256 KB')
    local function ends(size) -- in its line
      for line in text:gmatch '[^\n]+' do
        local _, at = line:find(size)
        if at then return at end
      end
    end
    assert.equal(ends 'weights +256 KB', ends 'few +12 B')
    run 'e = 1 a = 2 c = 3 b = 4 d = 5'
    local names = {}
    for name in run('%who'):gmatch '\n(%l+)%s+%a' do names[#names + 1] = name end
    assert.equal('a b c d e few n weights', table.concat(names, ' ')) -- sorted
    for i = 1, 40 do run(('v%d = 1'):format(i * 37 % 41 + 100)) end
    names = {}
    for name in run('%who v'):gmatch '\n(v%d+)' do names[#names + 1] = name end
    assert.equal(40, #names)
    for i = 2, 40 do assert.is_true(names[i - 1] < names[i]) end
    run 'weights:release()'
    assert.truthy(run('%who'):find 'weights%s+Tensor%s+released')
  end)

  it('%run keeps the variables of a file and gives it its arguments', function()
    local run, s = new()
    local path = os.tmpname()
    local file = io.open(path, 'w')
    file:write '#!ridge\nlocal first = arg[1]\nfunction twice(x) return 2 * x end\n'
    file:close()
    run('%run ' .. path .. ' hello')
    assert.equal('hello', s.env.first)
    assert.equal('42\n', run 'twice(21)')
    file = io.open(path, 'w')
    file:write 'x = 1\nlocal y = x.z.w\n'
    file:close()
    assert.truthy(run('%run ' .. path):find(path .. ':2', 1, true))
    file = io.open(path, 'w')
    file:write 'x = = 1\n'
    file:close()
    assert.truthy(run('%run ' .. path):find("unexpected symbol near '='", 1, true))
    os.remove(path)
    assert.truthy(run('%run ' .. path):find('No such file', 1, true))
  end)

  it('%tb and %debug tell more of the last error', function()
    local run = new()
    assert.equal('there was no error yet\n', run '%tb')
    run 'function f(a) local b = a .. "y" local c = b + {} return c end'
    run 'f("q")'
    assert.truthy(run('%tb'):find('stack traceback', 1, true))
    local text = run '%debug'
    assert.truthy(text:find "a%s+'q'")
    assert.truthy(text:find "b%s+'qy'")
    assert.is_nil(text:find('no locals', 1, true))
    run 'error "x"'
    assert.truthy(run('%debug'):find('no locals: the error was at the top', 1, true))
  end)

  it('%history and %save know what was typed', function()
    local run = new()
    run 'a = 1'
    run '%who'
    run 'b = a + 1'
    assert.truthy(run('%history 2'):find '3%s+b = a %+ 1')
    assert.is_nil(run('%history 2'):find 'a = 1\n')
    local path = os.tmpname()
    assert.truthy(run('%save ' .. path):find('there is a file', 1, true))
    os.remove(path)
    run('%save ' .. path)
    local file = assert(io.open(path))
    assert.equal('a = 1\nb = a + 1\n', file:read '*a')
    file:close()
    for count, kept in pairs { ['1'] = 'b = a + 1\n', ['9'] = 'a = 1\nb = a + 1\n' } do
      os.remove(path)
      run('%save ' .. path .. ' ' .. count)
      file = assert(io.open(path))
      assert.equal(kept, file:read '*a')
      file:close()
    end
    os.remove(path)
  end)

  it('%set shows and changes, and refuses what it does not know', function()
    local run = new()
    local ridge = require 'ridge'
    local before = ridge.num_threads()
    assert.truthy(run('%set'):find 'threads%s+%d')
    assert.equal('threads is 1\n', run '%set threads 1')
    assert.equal(1, ridge.num_threads())
    ridge.set_num_threads(before)
    assert.truthy(run('%set thread 2'):find("did you mean 'threads'", 1, true))
    assert.truthy(run('%set jit maybe'):find('on, off', 1, true))
    assert.equal('seed 7\n', run '%seed 7')
    assert.truthy(run('%seed x'):find("'x' is no number", 1, true))
  end)

  it('! goes to the shell, x = ! keeps the lines', function()
    local run, s = new()
    run 'y = !printf "a\\nb\\n"'
    assert.same({ 'a', 'b' }, s.env.y)
    assert.equal('(status 3)\n', run '!exit 3')
    assert.equal('(ended by signal 9)\n', run '!kill -9 $$')
    assert.equal('failed', select(2, run '!'))
  end)
end)

describe('%sql', function()
  local path

  setup(function()
    path = os.tmpname()
    os.remove(path)
    path = path .. '.db'
    require('ridge.store').open(path, 'write'):close()
  end)
  teardown(function() os.execute('rm -f ' .. path .. '*') end)

  it('answers in columns, in the order of the query', function()
    local run, s = new()
    local text = run('%sql --db=' .. path .. " SELECT 2 AS zebra, 'x' AS apple")
    assert.equal('zebra  apple\n    2  x\n', text)
    assert.equal(2, s.env._[1].zebra)
    assert.truthy(run('%sql --db=' .. path):find 'trial')
  end)

  it('changes nothing, and says what is wrong', function()
    local run = new()
    assert.equal('failed', select(2, run('%sql --db=' .. path .. ' DELETE FROM machine')))
    assert.equal('failed', select(2, run('%sql --db=' .. path .. ' CREATE TABLE t(x)')))
    assert.truthy(run('%sql --db=' .. path .. ' SELEC 1'):find 'syntax error')
    assert.truthy(run('%sql --db=/nowhere/x.db SELECT 1'):find 'no results database')
  end)
end)

describe('%plot', function()
  it('draws a vector from its smallest to its largest value', function()
    local run = new()
    local text = run '%plot {0, 1, 2, 3, 4, 5, 6, 7}'
    local lines = {}
    for line in text:gmatch '[^\n]+' do lines[#lines + 1] = line end
    assert.equal(8, #lines)
    assert.equal('7        █', lines[1])
    assert.equal('0 ▁███████', lines[8])
  end)

  it('draws a matrix in shades, and refuses the rest', function()
    local run = new()
    assert.equal("  ██\n██  \n' ' 0 .. █ 1\n", run '%plot {{0, 1}, {1, 0}}')
    assert.truthy(run('%plot ridge.ones(2, 2, 2)'):find('a vector or a matrix', 1, true))
    assert.truthy(run('%plot "x"'):find('a tensor or a list', 1, true))
    assert.truthy(run('%plot {0/0}'):find('nothing finite', 1, true))
  end)
end)

describe('str and summary', function()
  local structure = require 'ridge.repl.structure'
  local ridge = require 'ridge'

  it('str shows one line a field, cycles once', function()
    local t = { name = 'x', sizes = { 1, 2, 3 }, inner = { deep = { 1, { 2 } } } }
    t.self = t
    local text = printed(function() structure.str(t) end)
    assert.truthy(text:find "^table of 4\n")
    assert.truthy(text:find "\n  name: 'x'\n")
    assert.truthy(text:find '\n  sizes: list of 3: { 1, 2, 3 }\n')
    assert.truthy(text:find('(shown above)', 1, true))
    assert.truthy(printed(function() structure.str(ridge.arange(1, 9)) end)
      :find('tensor f32[9]  36 B  1 2 3 4 5 ...', 1, true))
  end)

  it('summary of a tensor gives its quantiles', function()
    local text = printed(function() structure.summary(ridge.arange(0, 100)) end)
    assert.truthy(text:find '\n%s*0%s+5%s+25%s+50%s+75%s+95%s+100%s+50%s+29%.3\n')
    text = printed(function() structure.summary(ridge.tensor { 0 / 0, 1, math.huge }) end)
    assert.truthy(text:find '1 nan\n1 infinite')
  end)

  it('summary of a tensor has each number end below the end of its name', function()
    local text = printed(function() structure.summary(ridge.tensor { -12.5, 7.5 }) end)
    local heads, cells = text:match '\n([^\n]*median[^\n]*)\n([^\n]*)'
    local function ends(line)
      local out = {}
      for at in (line:gsub('5 %%', '5_%%') .. ' '):gmatch '%S()%s' do out[#out + 1] = at end
      return out
    end
    assert.equal(9, #ends(heads))
    assert.same(ends(heads), ends(cells))
  end)

  it('summary of a network gives outputs, parameters and FLOP', function()
    local net = ridge.nn.Sequential(ridge.nn.Linear(8, 4), ridge.nn.ReLU())
    local text = printed(function() structure.summary(net, { input = { 2, 8 } }) end)
    assert.truthy(text:find '\n1%s+nn%.Linear.*f32%[2,4%]%s+36%s+144 B%s+128\n')
    assert.truthy(text:find '\n2%s+nn%.ReLU%s+f32%[2,4%]%s+0%s+0 B%s+8\n')
    assert.equal('nn.Linear', getmetatable(net.children[1].module).__name)
    assert.is_nil(rawget(net.children[1].module, 'forward'))
    assert.has_error(function() structure.summary(net, { inputs = { 2, 8 } }) end)
  end)
end)

describe('??name', function()
  local source = require 'ridge.repl.source'

  it('shows the source of functions of ridge, of files and of the prompt', function()
    local run, s = new()
    assert.truthy(source.lookup('ridge.near.hint', s.env):find('return (" (did you mean', 1, true))
    assert.truthy(source.lookup('ridge.nn.Linear', s.env):find('function Linear:init', 1, true))
    run 'function typed(a)\n  return a + 1\nend'
    assert.truthy(source.lookup('typed', s.env):find('  return a + 1\nend', 1, true))
    local text, reason = source.lookup('print', s.env)
    assert.is_nil(text)
    assert.truthy(reason:find('no Lua source', 1, true))
  end)
end)
