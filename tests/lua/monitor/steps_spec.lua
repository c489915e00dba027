-- SPDX-License-Identifier: MIT
-- A trainer watched step by step: what a dashboard shows within an epoch, at what cost, in whose
-- time; and what a run looks like that is killed, goes on, or has no room to write.

local ffi = require 'ffi'
local ridge = require 'ridge'
local folders = dofile 'tests/lua/store/folder.lua'
local heat = require 'ridge.monitor.heat'
local live = require 'ridge.monitor.live'
local program = dofile 'tests/lua/repl/program.lua'
local read = dofile 'tests/lua/tensorboard/read.lua'

-- One epoch of many steps, each of which takes a while; it says when it begins.
local RUN = [[
local ridge = require 'ridge'
local folder, pause, steps = arg[1], tonumber(arg[2]), tonumber(arg[3])
local monitor = ridge.monitor { tensorboard = folder, every = 0.1 }
local trainer = ridge.Trainer(ridge.nn.Linear(4, 2, { seed = 1 }), { lr = 0.1, monitor = monitor,
  log_every = 0, say = function() end })
local x, y = ridge.randn(steps, 4), ridge.randint(0, 2, steps)
local loader = { len = function() return steps end, each = function()
  local i = 0
  return function()
    i = i + 1
    local till = ridge.clock() + pause
    while ridge.clock() < till do end
    if i <= steps then return x:narrow(1, i, 1), y:narrow(1, i, 1) end
  end
end }
trainer:fit(loader, { epochs = 1 })
monitor:close()
]]

local folder

before_each(function() folder = folders.new() end)
after_each(function() folders.remove(folder) end)

local function put(name, text)
  local file = assert(io.open(folder .. '/' .. name, 'w'))
  file:write(text)
  file:close()
  return folder .. '/' .. name
end

-- The program runs a file beside this one; its process id.
local function start(words)
  local pipe = assert(io.popen(('%s %s > %s/out 2>&1 & echo $!'):format(program.path, words,
    folder)))
  local pid = tonumber(pipe:read '*l')
  pipe:close()
  return pid
end

local function wait_for(what, f)
  local till = ridge.clock() + 60
  repeat
    local found = f()
    if found then return found end
    require('ridge.store.clock').sleep(0.05)
  until ridge.clock() > till
  error(what .. ' never came')
end

local function trained(monitor, steps, opts)
  opts = opts or {}
  opts.lr, opts.say, opts.monitor, opts.log_every = 0.1, function() end, monitor, 0
  local trainer = ridge.Trainer(ridge.nn.Linear(4, 2, { seed = 1 }), opts)
  local x, y = ridge.randn(steps * 2, 4), ridge.randint(0, 2, steps * 2)
  local history = trainer:fit(ridge.data.Loader({ x, y }, { batch = 2 }), { epochs = 1 })
  return trainer, history
end

describe('a trainer that is watched', function()
  it('moves by steps in a terminal, within its first epoch', function()
    put('run.lua', RUN)
    local runs = folder .. '/runs'
    start(('%s/run.lua %s 0.02 250'):format(folder, runs))
    wait_for('an event file', function() return live.open(runs) end):close()
    local home = program.folder()
    local term = program.prompt(home, { NO_COLOR = '1' }, { 'watch', runs, '--every', '0.2' })
    -- once it has drawn again the terminal grows
    while not term.output:find '\27%[%d+A' do assert(term:pump(), term.output) end
    ffi.cdef 'int rg_steps_spec_ioctl(int, unsigned long, ...) __asm__("ioctl");'
    local size = ffi.new('unsigned short[4]', 40, 100, 0, 0)
    assert.equal(0, ffi.C.rg_steps_spec_ioctl(term.fd, ffi.cast('unsigned long', 0x5414), size))
    local status = term:wait()
    program.remove(home)
    assert.equal(0, status, term.output)
    -- from the beginning of a line, where a ^C has moved the cursor as well
    local _, up = term.output:gsub('\27%[%d+A', '')
    local _, from_beginning = term.output:gsub('\r\27%[%d+A\27%[J', '')
    assert.equal(up, from_beginning)
    local _, cleared = term.output:gsub('\27%[H\27%[J', '') -- once: its lines broke elsewhere
    assert.equal(1, cleared)
    local at, seen = -1, 0 -- steps within the epoch, each further on
    local text = term.output:gsub('\r?\n  ', ' · ') -- the head takes some lines
    for step in text:gmatch 'step (%d+) ·' do
      if tonumber(step) > at then at, seen = tonumber(step), seen + 1 end
    end
    assert.is_true(seen >= 4, term.output)
    assert.equal(250, at)
    assert.matches('step %d+ · epoch 1 · %d+ %% · training_loss %S+ · %d+ rows/s · memory %S+ MB',
      text)
    assert.matches(' · processors %d+ %% · 0:0%d left', text)
    assert.matches('\r?\ntraining_loss\r?\n', term.output)
    assert.truthy(term.output:find('█', 1, true))
    assert.matches(' · ended', term.output)
  end)

  it('costs a bounded share of the time, and writes a bounded number of losses', function()
    local monitor, spent, calls = ridge.monitor { tensorboard = folder }, 0, 0
    local follow = monitor.follow
    monitor.follow = function(...)
      local s = follow(...)
      spent, calls = spent + s, calls + 1
      return s
    end
    local began = ridge.clock()
    local trainer = trained(monitor, 6000)
    local s = ridge.clock() - began
    monitor:close()
    assert.equal(6000, calls)
    assert.is_true(spent > 0 and spent < 0.08 * s, ('%.3f of %.3f s'):format(spent, s))
    assert.equal(6000, #monitor:history 'training_loss')
    local losses, last = 0, nil
    for _, v in ipairs(read.values(monitor.writer.path)) do
      if v.tag == 'training_loss' then
        losses, last = losses + 1, v
        assert.near(trainer.curve[v.step].loss, v.fields[2][1], 1e-5)
      end
    end
    assert.equal(6000, last.step)
    assert.is_true(losses <= 500 * (2 + s / 0.25) and losses >= 100, losses)
  end)

  it('has no time of its monitor in its steps, epochs and rates', function()
    local monitor = ridge.monitor()
    monitor.follow = function()
      local began = ridge.clock()
      while ridge.clock() < began + 0.02 do end
      return ridge.clock() - began
    end
    local began = ridge.clock()
    local trainer, history = trained(monitor, 30)
    local s = ridge.clock() - began
    assert.is_true(s > 0.6)
    assert.is_true(trainer:summary().total_time < s - 0.5, trainer:summary().total_time)
    assert.is_true(history[1].seconds < s - 0.5)
    assert.is_true(trainer.curve[30].seconds < s - 0.5)
    assert.is_true(trainer:summary().max_step_time < 0.3)
    assert.is_true(history[1].rows_per_s > 60 / (s - 0.5))
  end)

  it('writes some of many losses that come at once, the last one too, and keeps all', function()
    local monitor, curve = ridge.monitor { tensorboard = folder }, {}
    for step = 1, 1203 do curve[step] = { step = step, loss = 1 / step, seconds = step } end
    monitor:follow { curve = curve, began_s = 0, running = { epoch = 1, epochs = 2,
      batches = 4000, done = 1203, rows = 1203, aside_s = 0 } }
    monitor:close()
    local steps = {}
    for _, v in ipairs(read.values(monitor.writer.path)) do
      if v.tag == 'training_loss' then steps[#steps + 1] = v.step end
    end
    assert.equal(401, #steps) -- each third: at most 500
    assert.same({ 3, 6, 1203 }, { steps[1], steps[2], steps[#steps] })
    assert.equal(1203, #monitor:history 'training_loss')
  end)

  it('has the rate of its own time: what it has set aside is not in it', function()
    local monitor = ridge.monitor { tensorboard = folder }
    local trainer = { curve = {}, began_s = 0,
      running = { epoch = 1, epochs = 2, batches = 4, done = 1, rows = 100, aside_s = 5000 } }
    for step = 1, 2 do
      trainer.curve[step] = { step = step, loss = 1, seconds = step }
      monitor.due = -math.huge
      monitor:follow(trainer)
      trainer.running.rows, trainer.running.aside_s = 4100, 3000 -- 2000 s later, as told
    end
    monitor:close()
    local rates = {}
    for _, v in ipairs(read.values(monitor.writer.path)) do
      if v.tag == 'rows_per_s' then rates[#rates + 1] = v.fields[2][1] end
    end
    assert.equal(1, #rates)
    assert.near(2, rates[1], 0.05)
  end)

  it('is followed no further than its losses are known', function()
    local monitor = ridge.monitor()
    local trainer = { curve = { { step = 1, loss = 2, seconds = 1 }, { step = 2, seconds = 2 } },
      began_s = 0, running = { epoch = 1, epochs = 2, batches = 4, done = 2, rows = 8,
        aside_s = 0 } }
    assert.is_true(monitor:follow(trainer) > 0)
    assert.equal(0, monitor:follow(trainer)) -- too early
    assert.equal(1, #monitor:history 'training_loss')
    trainer.curve[2].loss, monitor.due = 1, 0
    monitor:follow(trainer)
    local list = monitor:history 'training_loss'
    assert.same({ 2, 2, 1 }, { #list, list[2].step, list[2].value })
    assert.equal(2, monitor:summary().total_steps)
    assert.equal(2, monitor:summary().max_step_time + monitor:summary().min_step_time)
  end)
end)

describe('a run', function()
  it('whose process is killed is told as such, and goes on in another file', function()
    put('run.lua', RUN)
    local runs = folder .. '/runs'
    local pid = start(('%s/run.lua %s 0.02 100000'):format(folder, runs))
    wait_for('an event file', function() return live.open(runs) end):close()
    local run = live.open(runs)
    wait_for('a step', function()
      run:look()
      return run.step > 3
    end)
    assert.is_false(run.gone)
    assert.equal(0, ffi.C.kill(pid, 9))
    wait_for('its end', function()
      run:look()
      return run.gone
    end)
    assert.matches('its process is gone, and told no end$', run:text())
    local text, status = folders.run(('./ridge watch %s'):format(runs))
    assert.equal(1, status)
    assert.matches('told no end\n$', text)
    text, status = folders.run(('./ridge watch %s --once'):format(runs))
    assert.equal(1, status)
    assert.matches('told no end\n$', text)
    require('ridge.store.clock').sleep(1.1) -- names of files have seconds
    local w = ridge.tensorboard(runs)
    w:scalar('training_loss', 0.25, 1000)
    assert.is_true(run:look())
    assert.is_false(run.gone)
    assert.equal(1000, run.step)
    w:ended()
    w:close()
    run:look()
    assert.is_true(run.over)
    assert.is_false(run.gone)
    run:close()
  end)

  it('that is killed while it is watched is told as such, in a line of its own', function()
    put('run.lua', RUN)
    local runs = folder .. '/watched'
    local pid = start(('%s/run.lua %s 0.02 100000'):format(folder, runs))
    wait_for('an event file', function() return live.open(runs) end):close()
    ffi.C.kill(pid, 19) -- SIGSTOP: it writes nothing more, and is there still
    local log = folder .. '/watched.log'
    os.execute(('(%s watch %s --every 0.1; echo "status $?") > %s 2>&1 &'):format(program.path,
      runs, log))
    local function text()
      local file = io.open(log)
      local all = file and file:read '*a' or ''
      if file then file:close() end
      return all
    end
    wait_for('a first line', function() return text():find 'step %d' end)
    assert.is_nil(text():find 'is gone')
    ffi.C.kill(pid, 9)
    wait_for('the end of the watch', function() return text():find 'status' end)
    assert.matches('its process is gone, and told no end\nstatus 1\n$', text())
  end)

  it('of which nothing is written yet is a line too', function()
    os.execute(('mkdir -p %s/none'):format(folder))
    put('none/events.out.tfevents.9999999999.of-another-program', '')
    local text = folders.run(('./ridge watch %s/none --once'):format(folder))
    assert.matches('/none  step 0\n$', text)
  end)

  it('of a process that is gone without having ended is not alive', function()
    local w = ridge.tensorboard(folder)
    local run = live.open(folder)
    run:look()
    assert.is_false(run.gone)
    w:close()
    run:look()
    assert.is_true(run.gone)
    run:close()
    put('events.out.tfevents.9999999999.of-another-program', '')
    run = live.open(folder)
    run:look()
    assert.falsy(run.gone) -- nobody knows
    run:close()
  end)

  it('of this very process is looked at once: it cannot go on meanwhile', function()
    local monitor = ridge.monitor { tensorboard = folder }
    monitor:record({ training_loss = 1 }, 7)
    local run = live.open(folder)
    assert.is_true(run:is_still())
    run:close()
    monitor:close()
    put('events.out.tfevents.9999999999.ridge.1.1', '')
    run = live.open(folder)
    assert.is_false(run:is_still())
    run:close()
    local script = put('here.lua', ([[
local ridge = require 'ridge'
local monitor = ridge.monitor { tensorboard = '%s/here' }
monitor:record({ training_loss = 1 }, 7)
ridge.watch '%s/here']]):format(folder, folder))
    local text, status = folders.run(('timeout 60 ./ridge %s'):format(script))
    assert.equal(0, status)
    assert.matches('step 7 · training_loss 1', text)
  end)

  it('that is silent says for how long', function()
    local w = ridge.tensorboard(folder)
    local run = live.open(folder)
    w:scalar('loss', 1, 1, os.time() - 75)
    run:look()
    assert.matches(' · nothing since 1:1%d$', run:text())
    w:scalar('loss', 1, 2, os.time() - 13)
    run:look()
    assert.matches(' · nothing since 0:1%d$', run:text())
    for step, ago in ipairs { 8, 0 } do -- ten seconds are worth no word
      w:scalar('loss', 1, 2 + step, os.time() - ago)
      run:look()
      assert.is_nil(run:text():find 'nothing since')
    end
    run:close()
    w:close()
  end)

  it('on a full disk goes on, and is read as far as it was written', function()
    local full = '/dev/full'
    local probe = io.open(full, 'w')
    if not probe then return pending 'there is no /dev/full' end
    probe:close()
    local said = {}
    local monitor = ridge.monitor { tensorboard = folder,
      say = function(line) said[#said + 1] = line end }
    local fd, open = monitor.writer.file.fd, io.open(full, 'w')
    ffi.cdef 'int rg_steps_spec_fileno(void *) __asm__("fileno");'
    monitor.writer.file.fd = ffi.C.rg_steps_spec_fileno(open) -- ENOSPC from the system itself
    trained(monitor, 50)
    assert.equal(1, #said)
    assert.matches('No space left on device', said[1])
    local run = live.open(folder)
    run:look()
    assert.equal(0, run.step)
    monitor.writer.file.fd = fd
    open:close()
    monitor:record { custom = 1 }
    assert.is_nil(monitor:status().failed)
    run:look()
    assert.equal(50, run.step)
    assert.equal(1, run.last.custom)
    run:close()
    monitor:close()
  end)
end)

describe('clock and temperature of processors', function()
  it('are those the kernel tells, or left out', function()
    local root = heat.ROOT
    heat.ROOT = folder
    assert.same({}, heat.read())
    folders.run(('mkdir -p %s/b/sys/devices/system/cpu/cpu0/cpufreq %s/b/sys/devices/system/cpu/'
      .. 'cpu1/cpufreq %s/b/sys/class/hwmon/hwmon3'):format(folder, folder, folder))
    for i, khz in ipairs { 3000000, 2000000 } do
      put(('b/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq'):format(i - 1), khz .. '\n')
    end
    put('b/sys/class/hwmon/hwmon3/name', 'k10temp\n')
    put('b/sys/class/hwmon/hwmon3/temp1_input', '61250\n')
    heat.ROOT = folder .. '/b'
    assert.same({ clock_mhz = 2500, celsius = 61.25 }, heat.read())
    put('b/sys/class/hwmon/hwmon3/temp1_input', '')
    assert.same({ clock_mhz = 2500 }, heat.read())
    put('b/sys/class/hwmon/hwmon3/temp1_input', '50000\n')
    local monitor = ridge.monitor { tensorboard = folder .. '/runs', every = 0.1 }
    local till = ridge.clock() + 0.15
    while ridge.clock() < till do end
    monitor:record { x = 1 }
    local run = live.open(folder .. '/runs')
    run:look()
    heat.ROOT = root
    monitor:close()
    assert.matches(' · cpu 50 C · cpu 2500 MHz', run:text())
    run:close()
  end)
end)
