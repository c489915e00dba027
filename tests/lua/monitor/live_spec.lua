-- SPDX-License-Identifier: MIT
-- `ridge watch` of a run: its event file read while it grows, torn and damaged ends, what it says.

local ridge = require 'ridge'
local colour = require 'ridge.show.colour'
local folders = dofile 'tests/lua/store/folder.lua'
local live = require 'ridge.monitor.live'
local read = require 'ridge.tensorboard.read'
local second = dofile 'tests/lua/tensorboard/read.lua'

local folder

before_each(function() folder = folders.new() end)
after_each(function() folders.remove(folder) end)

local function fails(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(text, tostring(err), 1, true)
end

local function bytes_of(path)
  local file = assert(io.open(path, 'rb'))
  local bytes = file:read '*a'
  file:close()
  return bytes
end

local function put(path, bytes)
  local file = assert(io.open(path, 'wb'))
  file:write(bytes)
  file:close()
end

describe('an event file that grows', function()
  it('that cannot be read is an error with its reason', function()
    local ok, err = pcall(read.open, folder .. '/none')
    assert.is_false(ok)
    assert.equal('EIO', err.code)
    assert.equal('watch: cannot read ' .. folder .. '/none: No such file or directory', err.message)
  end)

  it('is read as far as whole records go, and then on', function()
    local w = ridge.tensorboard(folder)
    w:scalar('a', 1.5, -3, 100):scalar('b', 2, 2 ^ 40, 200):histogram('h', { 1, 2 }, 7)
    w:close()
    local bytes, path = bytes_of(w.path), folder .. '/events.out.tfevents.9999999999'
    local seen = {}
    put(path, '')
    local reader = read.open(path)
    for cut = 1, #bytes do -- byte by byte
      put(path, bytes:sub(1, cut))
      reader:more(function(tag, step, value, at_s)
        seen[#seen + 1] = { tag, step, value or 'none', at_s }
      end)
    end
    reader:close()
    assert.equal(4, #seen) -- the version first
    assert.same({ 'a', -3, 1.5, 100 }, seen[2])
    assert.same({ 'b', 2 ^ 40, 2, 200 }, seen[3])
    assert.same({ 'h', 7, 'none' }, { seen[4][1], seen[4][2], seen[4][3] })
    assert.equal(4, #second.records(bytes))
  end)

  it('that is damaged is told, with the place', function()
    local w = ridge.tensorboard(folder)
    local whole = w.file.size
    w:scalar('a', 1)
    w:close()
    local bytes = bytes_of(w.path)
    for _, at in ipairs { whole + 1, whole + 9, whole + 14, #bytes } do
      put(w.path, bytes:sub(1, at - 1) .. string.char((bytes:byte(at) + 1) % 256)
        .. bytes:sub(at + 1))
      local reader = read.open(w.path)
      fails(('is damaged at byte %d: a checksum is wrong'):format(whole), reader.more, reader,
        function() end)
      reader:close()
    end
  end)

  it('is the newest one of its folder, or none', function()
    assert.is_nil(read.find(folder))
    assert.is_nil(read.find(folder .. '/none'))
    local w = ridge.tensorboard(folder)
    w:close()
    assert.equal(w.path, read.find(folder))
    assert.equal(w.path, read.find(folder .. '/'))
    assert.equal(w.path, read.find(w.path))
    put(folder .. '/events.out.tfevents.9999999999.x', '')
    assert.equal(folder .. '/events.out.tfevents.9999999999.x', read.find(folder))
  end)
end)

describe('a run that is watched', function()
  it('has its step, losses, rate, memory and what is left', function()
    local w = ridge.tensorboard(folder)
    local run = live.open(folder)
    assert.is_true(run:look())
    assert.is_false(run:look())
    assert.equal(folder .. '  step 0', run:text())
    local at = run.began
    for i = 1, 50 do w:scalar('training_loss', 1 / i, i, at + i) end
    w:scalar('progress', 0.25, 50, at + 50):scalar('step_time', 0.5, 50, at + 50)
    w:scalar('system/memory_mb', 12.34, 50, at + 50):scalar('system/cuda:0/percent', 97, 50, at)
    w:scalar('system/cuda:0/celsius', 61, 50, at + 50)
    assert.is_true(run:look())
    assert.near(150, run:left(), 1e-6)
    assert.equal(folder .. '  step 50 · 25 % · training_loss 0.02 · 2 steps/s · memory 12.3 MB · '
      .. 'cuda:0 61 C · cuda:0 97 % · 2:30 left', run:text())
    local lines = run:screen { columns = 60, lines = 40 }
    for i = 1, 3 do assert.is_true(colour.width(lines[i]) <= 60, lines[i]) end
    assert.equal(run:text(), (table.concat(lines, ' · ', 1, 3):gsub(' ·   ', ' · ')))
    assert.equal('training_loss', lines[4])
    assert.equal(12, #lines)
    -- a line as wide as the terminal would go on in the next one in some
    local narrow = run:screen { columns = 41, lines = 40 }
    assert.equal('\n' .. require('ridge.show.chart').line(run.curves.training_loss, 40),
      table.concat(narrow, '\n', #narrow - 8):match '\n.*')
    -- each line is one of the terminal's, however long names are, however narrow it is: what is
    -- drawn again begins so many lines above
    run.curves[('long '):rep(40)] = { 1, 2, 3, seen = 3, every = 1 }
    for _, wide in ipairs { 80, 41, 16, 15, 10, 6 } do
      for i, line in ipairs(run:screen { columns = wide, lines = 40 }) do
        assert.is_true(colour.width(line) <= wide, ('%d: %s'):format(i, line))
      end
    end
    run.curves[('long '):rep(40)] = nil
    assert.equal(3, #run:screen { columns = 60, lines = 5 })
    assert.equal(2, #run:screen { columns = 60, lines = 3 })
    w:scalar('progress', 0.75, 60, at + 80) -- a half in 30 s
    run:look()
    assert.near(15, run:left(), 1e-6)
    w:ended()
    run:look()
    assert.is_true(run.over)
    assert.matches(' · ended$', run:text())
    run:close()
  end)

  it('has three curves below it, those of a training first, as far as there is room', function()
    local w = ridge.tensorboard(folder)
    for step, x in ipairs { 4, 2, 1 } do
      for _, name in ipairs { 'zeal', 'accuracy', 'loss', 'ardor', 'training_loss' } do
        w:scalar(name, x, step)
      end
    end
    w:scalar('epoch_loss', 1, 3) -- one value is no curve
    w:close()
    local run = live.open(folder)
    run:look()
    local function names(height)
      local lines, list = run:screen { columns = 400, lines = height }, {}
      for _, line in ipairs(lines) do
        if run.curves[line] then list[#list + 1] = line end
      end
      return table.concat(list, ' '), #lines
    end
    assert.same({ 'training_loss loss accuracy', 28 }, { names(200) }) -- a line, and nine each
    assert.same({ 'training_loss loss accuracy', 28 }, { names(29) })
    assert.same({ 'training_loss loss', 19 }, { names(28) })
    assert.same({ 'training_loss', 10 }, { names(11) })
    assert.same({ '', 1 }, { names(10) })
    run:close()
  end)

  it('that is long keeps the shape of its curve', function()
    local w = ridge.tensorboard(folder, { buffer = 2 ^ 24 })
    for i = 1, 5000 do w:scalar('x', i, i) end
    w:close()
    local run = live.open(folder)
    local keep = live.KEEP
    live.KEEP = 2000
    run:look()
    live.KEEP = keep
    local curve = run.curves.x
    assert.is_true(#curve <= 2000 and #curve >= 1000, #curve)
    for i = 2, #curve do assert.equal(curve.every, curve[i] - curve[i - 1]) end
    assert.equal(5000, run.step)
    run:close()
  end)

  it('is that of a trainer with a monitor, as typed', function()
    local path = folder .. '/runs/one'
    local m = ridge.monitor { tensorboard = path, every = 0.1 }
    local net = ridge.nn.Linear(4, 2)
    local x, y = ridge.randn(30, 4), ridge.randint(0, 2, 30)
    local trainer = ridge.Trainer(net, { lr = 0.1, say = function() end, monitor = m })
    trainer:fit(ridge.data.Loader({ x, y }, { batch = 10 }), { epochs = 2,
      validate = ridge.data.Loader({ x, y }, { batch = 10 }) })
    local text, status = folders.run(('./ridge watch %s --once'):format(path))
    assert.equal(0, status)
    assert.matches('/runs/one  step 6 · epoch 2 · 100 %% · training_loss %d', text)
    assert.matches(' rows/s · .*at most %d+%.%d MB', text)
    assert.is_nil(text:find 'ended')
    m:close()
    m:close()
    text, status = folders.run(('./ridge watch %s'):format(path)) -- ends by itself
    assert.equal(0, status)
    assert.matches(' · ended\n$', text)
    text, status = folders.run(('./ridge watch %s/runs'):format(folder))
    assert.equal(1, status)
    assert.matches('there is no event file in .*/runs, but in .*/runs/one\n', text)
  end)

  it('whose process was killed is told, by the status too', function()
    local recipe, path = folder .. '/killed.lua', folder .. '/killed'
    put(recipe, ([[
      local m = require('ridge').monitor { tensorboard = %q }
      m:step(function() end)
      os.execute('kill -9 $PPID')
    ]]):format(path))
    folders.run('./ridge ' .. recipe)
    for _, words in ipairs { '--once', '' } do
      local text, status = folders.run(('./ridge watch %s %s'):format(path, words))
      assert.matches('its process is gone, and told no end\n$', text)
      assert.equal(1, status, words)
    end
  end)

  it('knows how far steps of a known number are', function()
    local m = ridge.monitor { tensorboard = folder, total = 4 }
    for _ = 1, 3 do m:step(function() end) end
    m:close()
    local run = live.open(folder)
    run:look()
    run:close()
    assert.equal(0.75, run.last.progress)
    assert.is_true(run.over)
  end)

  it('is all of the way where there were more steps than that', function()
    local m = ridge.monitor { tensorboard = folder, total = 2 }
    for _ = 1, 3 do m:step(function() end) end
    m:close()
    local run = live.open(folder)
    run:look()
    run:close()
    assert.equal(1, run.last.progress)
  end)

  it('goes on in another file from where that begins', function()
    local function steps(from, to)
      local m = ridge.monitor { tensorboard = folder, total = 10 }
      m.steps = from
      for _ = from + 1, to do m:step(function() end) end
      m:close()
    end
    steps(0, 2)
    local run = live.open(folder)
    run:look()
    assert.near(0.1, run.first.value, 1e-6)
    steps(5, 7)
    run:look()
    run:close()
    assert.near(0.7, run.last.progress, 1e-6)
    assert.near(0.6, run.first.value, 1e-6) -- what was before took no time here
  end)
end)
