-- SPDX-License-Identifier: MIT
-- What ridge's own results look like: a box of twelve lines, one line in a table, a page, a
-- picture; print and the prompt agree, and nothing is computed for it.
local fixed = dofile 'tests/lua/cli/fixed_rows.lua'
local folders = dofile 'tests/lua/store/folder.lua'
local colour = require 'ridge.show.colour'
local inspect = require 'ridge.repl.inspect'
local ridge = require 'ridge'
local told = require 'ridge.measure.told'
local shown = require 'ridge.sweep.verdicts'
local value = require 'ridge.show.value'

local PNG = '\137PNG\r\n\26\n'

local function lines_of(text)
  local _, n = text:gsub('\n', '')
  return n + 1
end

describe('a value of ridge', function()
  local folder, path, trainer, made

  setup(function()
    folder = folders.new()
    path = folder .. '/s.db'
    fixed.make(path)
    local x, y = ridge.randn(32, 8), ridge.zeros(32, { dtype = 'i64' })
    local net = ridge.nn.Sequential()
    for _ = 1, 9 do net:add(ridge.nn.Sequential(ridge.nn.Linear(8, 8), ridge.nn.ReLU())) end
    trainer = ridge.Trainer(net, { lr = 0.01, clip = 1, accumulate = 2, say = function() end })
    trainer:fit({ x, y }, { epochs = 11,
      validate = ridge.data.Loader({ x, y }, { batch = 16 }) })
    local verdicts, rows = {}, {}
    for i = 1, 30 do
      verdicts[i] = { verdict = i % 3 == 0 and 'open' or i % 2 == 0 and 'faster' or 'slower',
        ratio = i % 2 == 0 and 1 / i or i, ci_lo = 0.9 / i, ci_hi = 1.1 * i, phase = 'fwd',
        match = { width = 2 ^ (i % 9), name = '<b>' }, a_ns = 10 * i, b_ns = 1e6,
        reason = i % 3 == 0 and 'the intervals are too wide' or nil }
      rows[i] = { name = i == 3 and 'fma.f32' or 'bw.l' .. i, threads = i % 2 + 1,
        unit = i == 3 and 'flop/s' or 'B/s', value = 1e9 * i, ci_lo = 9e8 * i, ci_hi = 1.1e9 * i }
    end
    local stability = ridge.Stability(ridge.optim.SGD(net, { lr = 0.1 }), { clip = {} })
    for _ = 1, 3 do
      net(x):sum():backward()
      stability:step(1)
    end
    local sw = ridge.open(path):sweep 'widths'
    local timeline = ridge.timeline(function() return net(x) end)
    local memory = ridge.memory.timeline(function()
      local kept = {}
      for i = 1, 20 do kept[i] = ridge.ones(64, 64) end
      return kept
    end)
    local profile = ridge.profile(function()
      trainer:fit({ x, y }, { epochs = 12 })
    end)
    made = { profile = profile, module = net, trainer = trainer, history = trainer.history,
      stability = stability.history, timeline = timeline, memory = memory, stored = sw,
      results = sw:results(), verdicts = shown.verdicts(verdicts),
      calibration = told.calibration(rows),
      query = ridge.query('widths', { db = path }),
      sweep = ridge.sweep 'told' { space = { width = ridge.geom(1, 512), kind = { 'a', 'b' } },
        measure = function() error 'measured' end } }
  end)
  teardown(function() folders.remove(folder) end)

  local LONG = { results = 22, query = 22 }

  it('is a box of few lines, the same by print, tostring and at the prompt', function()
    for name, x in pairs(made) do
      local text = tostring(x)
      assert.is_true(lines_of(text) <= (LONG[name] or 12), ('%s:\n%s'):format(name, text))
      assert.equal(text, inspect.value(x, { width = 80 }), name)
      assert.is_nil(text:find('table: 0x', 1, true), name)
      assert.is_nil(text:find 'raises: ', name .. ': ' .. text)
    end
  end)

  it('is one line in a list or a table', function()
    for name, x in pairs(made) do
      local text = inspect.value { x }
      assert.equal(1, lines_of(text), name .. ': ' .. text)
      assert.is_true(#text < 160, name .. ': ' .. text)
    end
  end)

  it('fits the terminal, in few lines', function()
    local before = package.loaded['ridge.host']
    finally(function() package.loaded['ridge.host'] = before end)
    for _, width in ipairs { 1, 3, 20, 40, 60, 300 } do
      package.loaded['ridge.host'] = { columns = function() return width end }
      for name, x in pairs(made) do
        local text = tostring(x)
        assert.equal(text, inspect.value(x, { width = width }), name)
        assert.is_true(lines_of(text) <= (LONG[name] or 12), ('%s:\n%s'):format(name, text))
        for line in text:gmatch '[^\n]+' do
          assert.is_true(colour.width(line) <= width, ('%d %s: %s'):format(width, name, line))
        end
      end
    end
  end)

  it('runs no operation to show itself', function()
    local profile = require 'ridge.profile'
    profile.trace(function()
      for _, x in pairs(made) do
        value.html(x)
        tostring(x)
      end
    end)
    local n = 0
    for _ in profile.events() do n = n + 1 end
    assert.equal(0, n)
  end)

  it('is a page where nothing of it is a mark', function()
    for name, x in pairs(made) do
      if name ~= 'module' then
        local html = value.html(x)
        assert.truthy(html:find '^<pre>', name)
        assert.is_nil(html:gsub('^<pre>', ''):gsub('</pre>$', ''):find '[<>]', name)
      end
    end
    assert.truthy(value.html(made.verdicts):find('name=&lt;b&gt;', 1, true))
    assert.is_nil(value.html {})
  end)

  it('has a picture, where there is one', function()
    for _, name in ipairs { 'profile', 'trainer', 'history', 'timeline', 'memory' } do
      local bytes, why = value.png(made[name])
      assert.equal(PNG, bytes and bytes:sub(1, #PNG) or why, name)
    end
    assert.is_nil(value.png(made.verdicts))
    local bytes, why = value.png(ridge.Trainer(ridge.nn.Linear(2, 2), { lr = 1 }))
    assert.is_nil(bytes)
    assert.truthy(why:find '__png raises')
  end)

  it('says what is most worth reading first', function()
    local trained = tostring(trainer)
    assert.truthy(trained:find('^trainer of nn.Sequential%(648 parameters%)\n'))
    assert.truthy(trained:find('\nloss [%d.]+ .+ [%d.]+\naccuracy '), trained)
    assert.truthy(trained:find('2 batches a step, clipped at 1', 1, true))
    local seconds = trainer.trained_s
    trainer.trained_s = 0.25 * trainer:summary().total_steps
    assert.matches('%W3%W+s: 250%W+ms a step   best loss', tostring(trainer))
    trainer.trained_s = seconds
    for n = 8, 10 do -- eight rows are shown; one more is one before
      local rows = setmetatable({}, getmetatable(trainer.history))
      for k = 1, n do rows[k] = { epoch = k, loss = 1 / k } end
      assert.equal(n == 9 and '1 epoch' or n == 10 and '2 epochs' or nil,
        tostring(rows):match '\n%((%d+ epochs?) before%)$')
    end
    assert.truthy(tostring(trainer.history):find '^1%d epochs: loss .*\n%(%d epochs before%)$')
    assert.truthy(tostring(made.stored):find('\n6 of 6 points done; grades: 2 A, 2 B, 1 C, 1 D',
      1, true))
    assert.truthy(tostring(made.sweep):find(
      '^sweep told of 20 points\nkind a, b; width 1 .. 512 %(10 values%)\nnot run yet'))
    assert.truthy(tostring(made.verdicts):find(
      '^30 verdicts of b against a: 10 slower, 10 faster, 10 open\n'))
    assert.truthy(tostring(made.verdicts):find '\nname=<b> width=%d+ +fwd +slower +x29')
    -- of two machines that is said, and of which sweep each is, where there are several
    local verdicts = shown.verdicts
    local function found(sweep, machines)
      return { verdict = 'faster', ratio = 0.5, ci_lo = 0.4, ci_hi = 0.6, match = { k = 1 },
        sweep = sweep, phase = 'fwd', a_ns = 2, b_ns = 1, machines = machines }
    end
    local there = { a = 'one', b = 'two' }
    local text = tostring(verdicts { found('s', there), found('t', there) })
    assert.matches('^2 verdicts of b against a: 2 faster, all of machines %(two against one%)\n',
      text)
    assert.matches('\ns k=1 .*\nt k=1 ', text)
    text = tostring(verdicts { found('s', there), found 's', found('s', { a = 'one', b = 'x' }) })
    assert.matches('^3 verdicts of b against a: 3 faster, 2 of machines\n', text)
    assert.matches('\nk=1 ', text)
    assert.is_nil(tostring(verdicts { found 's' }):find 'machines')
    assert.truthy(tostring(made.calibration):find '^calibration of 30 rows, 2 thread counts: 3')
    assert.truthy(tostring(made.profile):find '^profile of .*\noperation .*\n_:text%(%)')
  end)

  it('names the parameters of a sweep that is stored', function()
    local stored = folder .. '/space.db'
    fixed.make(stored)
    require('ridge.store').with(stored, 'write', function(st)
      st.db:run('/* space */ UPDATE main.sweep SET space = ?',
        '{"params":{"width":[8,16,2,4,1,32,64],"kind":["a","b"],"many":["x","y","z","u","v","w"]}}')
    end)
    assert.equal('kind a, b; many x .. w (6 values); width 1 .. 64 (7 values)',
      tostring(ridge.open(stored):sweep 'widths'):match '\n(kind [^\n]*)')
  end)
end)

describe('a large net', function()
  local function net(n, depth)
    local out = ridge.nn.Sequential()
    for _ = 1, n do out:add(depth > 0 and net(2, depth - 1) or ridge.nn.ReLU()) end
    return out
  end

  it('is folded from the deepest level on, and whole by describe', function()
    local x = net(2, 3)
    local text = tostring(x)
    assert.truthy(text:find('\n    %(1%) nn.Sequential %.%.%.\n'), text)
    assert.is_nil(text:find 'ReLU')
    assert.equal(31, lines_of(x:describe()))
    assert.truthy(text:find('(24 lines more: print(_:describe()); summary(_))', 1, true), text)
    assert.equal(net(9, 0):describe(), tostring(net(9, 0)))
  end)

  it('shows both ends of a long list', function()
    local text = tostring(net(40, 0))
    assert.equal(12, lines_of(text))
    assert.truthy(text:find('\n  (6) nn.ReLU\n  ... 31 lines\n  (38) nn.ReLU\n', 1, true), text)
    assert.truthy(text:find('(31 lines more: ', 1, true))
  end)

  it('costs a note where a class of the user is broken', function()
    local Mine = ridge.nn.class 'Mine'
    function Mine.forward(_, x) return x end
    function Mine:__tostring() return self.nothing.at end
    function Mine.__line() error 'no line' end
    local holder = ridge.nn.Sequential()
    holder.kept = Mine() -- a plain field; what it raises is passed on as it is
    local ok, why = pcall(tostring, holder)
    assert.is_false(ok)
    assert.matches("^tests/lua/show/types_spec.lua:%d+: attempt to index field 'nothing'", why)
    assert.truthy(tostring(ridge.nn.Sequential(Mine())):find('(1) Mine (its __tostring raises)', 1,
      true))
    assert.equal('{ <Mine: its __line raises: ' .. 'tests/lua/show/types_spec.lua:',
      inspect.value({ Mine() }):match '^{ <Mine: its __line raises: [^:]*:')
  end)

  it('costs no more where what it raises has no text', function()
    local function raises() error 'inside' end
    for _, err in ipairs { setmetatable({}, { __tostring = raises }),
        setmetatable({}, { __index = raises }),
        { message = setmetatable({}, { __tostring = raises }) } } do
      local function broken() error(err) end
      local x = setmetatable({}, value.class('Mine', { line = broken, box = broken, html = broken,
        png = broken }))
      assert.equal('<Mine: its __line raises: an error that has no text>', value.line(x))
      assert.equal('<Mine: its __box raises: an error that has no text>', tostring(x))
      assert.matches('an error that has no text', value.html(x), 1, true)
      assert.matches('an error that has no text', select(2, value.png(x)), 1, true)
    end
  end)
end)

describe('a point', function()
  it('has its interval and its grade in a narrow terminal, too', function()
    local point = require('ridge.measure.shown').point { med = 126, ci_lo = 58.1, ci_hi = 163,
      ci_level = 0.95, grade = 'D', flags = { 'FOREIGN' }, n = 15, inner = 8 }
    local function first(width, n)
      local lines = {}
      for line in inspect.value(point, { width = width }):gmatch '[^\n]+' do
        lines[#lines + 1] = line:gsub('\226\128\175', ' ')
      end
      return table.concat(lines, '\n', 1, n)
    end
    assert.equal('median 126 ns   95 % 58.1 ns .. 163 ns   grade D', first(60, 1))
    assert.equal('median 126 ns   95 % 58.1 ns .. 163 ns\n  grade D', first(40, 2))
    assert.matches('\n  grade D\n  other processes', first(40, 3))
    assert.equal('median 126 ns\n  95 % 58.1 ns .. 163 ns\n  grade D', first(30, 3))
  end)
end)

describe('a history that has diverged', function()
  it('says how many of its numbers are not finite', function()
    local history = require('ridge.train.shown').history
    local function first(...)
      local rows = {}
      for i, loss in ipairs { ... } do rows[i] = { epoch = i, loss = loss } end
      return tostring(history(rows)):match '^[^\n]*'
    end
    assert.equal('4 epochs: loss 2 ▁█ 3, 2 not finite', first(2, 3, 0 / 0, 1 / 0))
    assert.equal('2 epochs: loss 2, 1 not finite', first(2, -1 / 0))
    assert.equal('2 epochs: loss: 2 not finite', first(0 / 0, 0 / 0))
    assert.equal('2 epochs: loss 2 █▁ 1', first(2, 1))
  end)
end)

describe('numbers at the ends of what a double holds', function()
  it('are bars and shades as any other', function()
    local rows = {}
    for i = 1, 60 do rows[i] = { epoch = i, loss = i <= 30 and 1.7e308 or -1.7e308 } end
    local text = tostring(require('ridge.train.shown').history(rows))
    assert.matches('^60 epochs: loss 1.7e%+308 █%S+▁ %-1.7e%+308\n', text)
    local chart = require 'ridge.show.chart'
    assert.matches('^  ██\n', chart.field { { -1.7e308, 1.7e308 } })
    assert.equal(2, chart.thin({ 1, 2, 3, 0 / 0 }, 1)[1])
  end)
end)

describe('str and summary', function()
  it('are calls in a script, too', function()
    local before, parts = io.stdout, {}
    io.stdout = { write = function(_, ...) -- luacheck: ignore 122
      for _, part in ipairs { ... } do parts[#parts + 1] = part end
    end }
    local ok, err = pcall(function()
      ridge.str { name = 'x' }
      ridge.summary { 1, 2, 3 }
    end)
    io.stdout = before -- luacheck: ignore 122
    assert.is_true(ok, err)
    local text = table.concat(parts)
    assert.truthy(text:find("^table of 1\n  name: 'x'\ntensor f64%[3%]"), text)
    assert.truthy(text:find 'median', text)
  end)
end)
