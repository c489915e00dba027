-- SPDX-License-Identifier: MIT
-- A monitor: history, summary, report, status, accuracy; how busy the machine is; timers; what is
-- available.

local ridge = require 'ridge'
local proportion = require 'ridge.measure.proportion'
local read = dofile 'tests/lua/tensorboard/read.lua'
local usage = require 'ridge.monitor.usage'

local function spin(s)
  local began = ridge.clock()
  while ridge.clock() - began < s do end
end

local function fails(text, f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(text, tostring(err), 1, true)
end

describe('a monitor', function()
  it('keeps any metrics by step (F153)', function()
    local m = ridge.monitor()
    assert.equal(m, m:record({ custom_metric = 0.95, training_loss = 0.123 }, 100))
    m:record({ training_loss = 0.1 }, 200):record({ training_loss = 0 / 0 }, 300)
    local history = m:history 'training_loss'
    assert.equal(3, #history)
    assert.same({ 100, 0.123 }, { history[1].step, history[1].value })
    assert.equal(1, #m:history 'custom_metric')
    assert.equal(3, #m:history())
    assert.same({}, (m:history 'none'))
    local loss = m:summary().metrics.training_loss
    assert.same({ 300, 2, 1, 0.1, 0.123 }, { loss.step, loss.n, loss.not_finite, loss.min,
      loss.max })
    assert.near(0.1115, loss.mean, 1e-12)
  end)

  it('has steps of no time before the first', function()
    local s = ridge.monitor():summary()
    assert.same({ 0, 0, 0, 0 }, { s.total_steps, s.average_step_time, s.min_step_time,
      s.max_step_time })
  end)

  it('is closed without an event file, and with one, as often as one likes', function()
    local m = ridge.monitor():record({ x = 1 }, 1)
    m:close()
    m:close()
    assert.equal(1, #m:history 'x')
    local path = os.tmpname()
    os.remove(path)
    m = ridge.monitor { tensorboard = path }:record({ x = 1 }, 1)
    m:close()
    m:close()
    assert.equal(1, #m:history 'x')
    os.execute('rm -r ' .. path)
  end)

  it('keeps the last rows of a long run, and says how many it dropped', function()
    local m = ridge.monitor { keep = 10 }
    for i = 1, 25 do m:record({ x = i }, i) end
    local rows, dropped = m:history()
    assert.same({ 10, 15, 16, 25 }, { #rows, dropped, rows[1].step, rows[10].step })
    assert.equal(25, m:summary().metrics.x.n)
    assert.equal(13, m:summary().metrics.x.mean)
    assert.matches('15 older rows are not kept', m:report())
    assert.equal(15, m:status().dropped)
  end)

  it('times steps (F155), and reports with four decimals (F156)', function()
    local m = ridge.monitor()
    for i = 1, 4 do
      assert.equal(i, m:step(function(x)
        spin(0.01 * x)
        return x
      end, i))
      assert.matches(i == 1 and '^1 step, ' or '^%d steps, ', m:report())
    end
    local s = m:summary()
    assert.equal(4, s.total_steps)
    assert.is_true(s.average_step_time >= 0.025 and s.min_step_time >= 0.01
      and s.max_step_time >= 0.04 and s.total_time >= 4 * s.average_step_time)
    assert.is_true(s.min_step_time < s.average_step_time
      and s.average_step_time < s.max_step_time)
    ridge.empty(2 ^ 20):release() -- 4 MB
    spin(0.02) -- is no step
    s = m:summary()
    assert.is_true(s.total_time >= 4 * s.average_step_time + 0.02)
    assert.is_true(s.memory_mb >= 0 and s.peak_memory_mb >= s.memory_mb + 3.9)
    assert.is_nil(s.gpu_usage)
    m:record { loss = 2 }
    assert.matches('^4 steps, %d+%.%d s: 0%.%d%d%d%d s a step %[0%.%d%d%d%d %.%. 0%.%d%d%d%d%]\n'
      .. 'memory %d+%.%d MB, at most %d+%.%d MB\nprocessors ', m:report())
    assert.matches('\nloss +2 +2 +2 +2 +1$', m:report())
    assert.equal(4, m:history('loss')[1].step)
  end)

  it('passes on what a step raises, and goes on', function()
    local m = ridge.monitor()
    fails('on purpose', m.step, m, function() error 'on purpose' end)
    m:step(function() end)
    assert.equal(1, m:summary().total_steps)
  end)

  it('says what is in force (F157)', function()
    local m = ridge.monitor()
    assert.is_false(m:status().config.mixed_precision)
    assert.is_true(ridge.autocast('bf16', function()
      return m:status().config.mixed_precision
    end))
    local net = ridge.nn.Linear(3, 2)
    local trainer = ridge.Trainer(net, { lr = 0.1, autocast = 'bf16', say = function() end })
    m = ridge.monitor { trainer = trainer }
    assert.equal('bf16', m:status().config.mixed_precision)
    assert.is_false(m:status().config.compile_enabled)
    assert.matches('\nmixed_precision bf16\n', m:report())
    for _, other in ipairs { {}, { status = 3 }, ridge.ones(2) } do -- the last one raises
      m.trainer = other
      assert.is_false(m:status().config.mixed_precision)
    end
  end)

  it('refuses what is none', function()
    local m = ridge.monitor()
    fails('a table of numbers is expected', m.record, m, 3)
    fails('step is what each row has', m.record, m, { step = 1 })
    fails('seconds is what each row has', m.record, m, { seconds = 1 })
    fails('names and numbers are expected', m.record, m, { a = 'b' })
    fails('the step is a whole number up to 2^53, got nan', m.record, m, { a = 1 }, 0 / 0)
    fails('the step is a whole number up to 2^53, got -', m.record, m, { a = 1 }, -2 ^ 54)
    fails('a function is expected', m.step, m, 3)
    fails('every', ridge.monitor, { every = 0 })
    fails('keep', ridge.monitor, { keep = -1 })
    fails('device', ridge.monitor, { device = 'gpu9' })
    assert.same({}, (m:history()))
    fails('device', m.init, m, { device = 'gpu9' }) -- and stays what it was
    assert.matches('^0 steps', m:report())
  end)
end)

describe('accuracy between evaluations (F161)', function()
  it('has its interval, and fell only where that is beyond chance', function()
    local m = ridge.monitor()
    local first = m:accuracy(900, 1000, 1)
    assert.same({ 0.9, false }, { first.accuracy, first.fell })
    local lo, hi = proportion.interval(900, 1000)
    assert.same({ lo, hi }, { first.lo, first.hi })
    local second = m:accuracy(895, 1000, 2)
    assert.is_false(second.fell)
    assert.near(0.005, second.below, 1e-12)
    assert.is_true(second.below_lo < 0 and second.below_hi > 0.005)
    assert.matches('accuracy 0.8950 %[.*%], 0.0050 below step 1, which may be chance', m:report())
    local third = m:accuracy(850, 1000, 3)
    assert.is_true(third.fell)
    assert.equal(1, third.best_step)
    assert.matches('fell since step 1: 0.0500 below %[0.02%d%d .. 0.0%d+%]', m:report())
    assert.is_nil(m:accuracy(950, 1000, 4).below)
    assert.equal(4, m:accuracy(10, 1000, 5).best_step)
    assert.equal(5, #m:history 'accuracy_lo')
  end)

  it('is beside the best that is known best: one right answer of one hides no fall', function()
    local m = ridge.monitor()
    m:accuracy(1, 1, 1)
    assert.is_false(m:accuracy(990, 1000, 2).fell)
    local third = m:accuracy(500, 1000, 3)
    assert.is_true(third.fell)
    assert.equal(2, third.best_step)
    assert.is_nil(m:accuracy(1, 1, 4).below)
    assert.equal(2, m:accuracy(500, 1000, 5).best_step)
    -- and of few it says little: each side has its own number of answers
    local few = m:accuracy(4, 5, 6)
    assert.same({ proportion.difference(990, 1000, 4, 5) }, { few.below_lo, few.below_hi })
  end)

  it('is of counts', function()
    local m = ridge.monitor()
    fails('so many out of n', m.accuracy, m, 5, 4)
    fails('so many out of n', m.accuracy, m, 0, 0)
    fails('hits is a whole number from 0, got nan', m.accuracy, m, 0 / 0, 4)
    fails('n is a whole number from 0, got -1', m.accuracy, m, 0, -1)
    fails('so many out of n', m.accuracy, m, nil, 4)
  end)
end)

describe('a trainer with a monitor', function()
  local function trained(opts)
    local net = ridge.nn.Linear(4, 2, { seed = 1 })
    opts.lr, opts.say = 0.1, function() end
    local trainer = ridge.Trainer(net, opts)
    local x, y = ridge.randn(30, 4), ridge.randint(0, 2, 30)
    local history = trainer:fit(ridge.data.Loader({ x, y }, { batch = 10 }), { epochs = 2,
      validate = ridge.data.Loader({ x, y }, { batch = 10 }) })
    return trainer, history
  end

  it('has its losses and epochs, and the interval of its accuracy', function()
    local m = ridge.monitor()
    local trainer, history = trained { monitor = m }
    local losses = m:history 'training_loss'
    assert.equal(6, #losses)
    for i, row in ipairs(trainer.curve) do
      assert.same({ row.step, row.loss }, { losses[i].step, losses[i].value })
    end
    local epochs = m:history 'epoch_loss'
    assert.same({ 3, history[1].loss, 6, history[2].loss },
      { epochs[1].step, epochs[1].value, epochs[2].step, epochs[2].value })
    assert.equal(6, m:summary().total_steps)
    assert.is_false(m:status().config.compile_enabled)
    local row = history[2]
    local lo, hi = proportion.interval(row.accuracy * 30, 30)
    assert.same({ 30, lo, hi }, { row.accuracy_n, row.accuracy_lo, row.accuracy_hi })
  end)

  it('takes nothing else for one', function()
    fails('monitor is what ridge.monitor makes, got a table', trained, { monitor = {} })
  end)

  it('writes an event file (F154)', function()
    local folder = os.tmpname()
    os.remove(folder)
    local m = ridge.monitor { tensorboard = folder .. '/runs/performance_optimization' }
    trained { monitor = m }
    m:close()
    local losses, tags = {}, {}
    for _, v in ipairs(read.values(m:status().tensorboard)) do
      tags[v.tag] = true
      if v.tag == 'training_loss' then losses[#losses + 1] = v.step end
    end
    os.execute('rm -rf ' .. folder)
    assert.same({ 1, 2, 3, 4, 5, 6 }, losses)
    assert.is_true(tags.accuracy and tags.val_loss and tags.rows_per_s)
  end)

  it('goes on where the event file cannot be written, and says so once', function()
    local folder, said = os.tmpname(), {}
    os.remove(folder)
    local m = ridge.monitor { tensorboard = folder, say = function(l) said[#said + 1] = l end }
    local flush = m.writer.file.flush
    m.writer.file.flush = function() require('ridge.blame').raise('no room', 'EIO') end
    trained { monitor = m }
    assert.equal(1, #said)
    assert.matches('^monitor: no room', said[1])
    assert.equal('no room', m:status().failed)
    assert.matches('not written: no room', m:report(), 1, true)
    m.writer.file.flush = flush
    m:close()
    require('ridge.store.clock').sleep(0.15) -- shares of less are not told
    m.asked = -math.huge -- so that it reads how busy devices are, which nobody writes any more
    assert.matches('cpu_percent', m:report())
    assert.equal(1, #said)
    local losses = 0
    for _, v in ipairs(read.values(m.writer.path)) do
      losses = losses + (v.tag == 'training_loss' and 1 or 0)
    end
    os.execute('rm -rf ' .. folder)
    assert.equal(6, losses)
    assert.is_nil(m:status().failed)
  end)
end)

describe('how busy the machine is (F160)', function()
  it('is read between pieces of work, as often as it is wanted', function()
    local m, reads, began = ridge.monitor { every = 0.2 }, 0, ridge.clock()
    local real = usage.read
    local inside, within = false, false
    usage.read = function(before) -- luacheck: ignore 122
      reads, within = reads + 1, within or inside
      return real(before)
    end
    for _ = 1, 30 do
      m:step(function()
        inside = true
        spin(0.02)
        inside = false
      end)
    end
    usage.read = real -- luacheck: ignore 122
    assert.is_false(within)
    assert.is_true(reads >= 1 and reads <= (ridge.clock() - began) / 0.2, reads)
    local s = m:summary()
    assert.is_true(s.process_percent > 1 and s.process_percent <= 100, s.process_percent)
    assert.is_true(s.cpu_percent >= 0 and s.cpu_percent <= 100)
    assert.is_truthy(s.metrics.cpu_percent)
    assert.matches('processors %d+ %%, by this process %d+ %%', m:report())
  end)

  it('is not read while a step is timed, whatever that records', function()
    local m, reads = ridge.monitor(), 0
    local real = usage.read
    usage.read = function(before) -- luacheck: ignore 122
      reads = reads + 1
      return real(before)
    end
    local function long_ago() m.asked = -math.huge end
    long_ago()
    m:step(function()
      m:record { loss = 1 }
      m:accuracy(1, 2)
      m:summary()
      m:step(function() end) -- one within it does not end it
      m:record { loss = 1 }
      assert.equal(0, reads)
    end)
    assert.equal(1, reads)
    long_ago()
    fails('on purpose', m.step, m, function() error 'on purpose' end)
    assert.equal(1, reads)
    m:record { loss = 1 } -- the step that raised is over
    usage.read = real -- luacheck: ignore 122
    assert.equal(2, reads)
  end)

  it('is kept apart from a metric of the same name', function()
    local m = ridge.monitor()
    local real = usage.read
    usage.read = function() -- luacheck: ignore 122
      return { cpu_percent = 50, gpus = { ['cuda:0'] = { percent = 20 } } }, {}
    end
    m.asked = -math.huge
    m:record { cpu_percent = 7 }
    usage.read = real -- luacheck: ignore 122
    local s = m:summary()
    assert.same({ 7, 1 }, { s.metrics.cpu_percent.mean, s.metrics.cpu_percent.n })
    assert.equal(50, s.cpu_percent)
    assert.equal(20, s.metrics['cuda:0_percent'].mean)
  end)

  it('is unavailable where it cannot be read, with the reason', function()
    local m = ridge.monitor()
    assert.equal('unavailable: nothing was read before', m:summary().usage_why)
    assert.matches('processors unavailable: nothing was read before, by this process unavailable',
      m:report())
    local c = usage.counters()
    assert.matches('less than 0.1 s', usage.between(c, c).why)
    local blind = { at_ns = 0, busy_ns = 0 / 0, own_ns = 0, n_cpus = 2 }
    local out = usage.between(blind, { at_ns = 1e9, busy_ns = 0 / 0, own_ns = 5e8, n_cpus = 2 })
    assert.is_nil(out.cpu_percent)
    assert.equal(25, out.process_percent)
    assert.equal('unavailable: /proc/stat cannot be read', out.why)
  end)

  it("of a GPU is what NVML says, or its reason", function()
    local before = usage.NVML
    usage.NVML = 'libnone-such.so.7'
    local none, why = usage.gpu 'GPU-1'
    assert.is_nil(none)
    assert.matches('^unavailable: .*libnone%-such', why)
    local source, library = os.tmpname(), os.tmpname()
    local file = assert(io.open(source, 'w'))
    file:write [[
      #include <string.h>
      int nvmlInit_v2(void) { return 0; }
      int nvmlDeviceGetHandleByUUID(const char *uuid, void **out)
      { *out = (void *)7; return strcmp(uuid, "GPU-1") == 0 ? 0 : 6; }
      int nvmlDeviceGetUtilizationRates(void *device, unsigned *out)
      { out[0] = device == (void *)7 ? 43 : 0; out[1] = 12; return 0; }
    ]]
    file:close()
    local made = os.execute(('cc -shared -fPIC -x c -o %s %s 2>/dev/null'):format(library, source))
    os.remove(source)
    if made ~= 0 and made ~= true then
      os.remove(library)
      usage.NVML = before
      pending 'no C compiler'
      return
    end
    usage.NVML = library
    local percent = usage.gpu 'GPU-1'
    none, why = usage.gpu 'GPU-2'
    usage.NVML = before
    os.remove(library)
    assert.equal(43, percent)
    assert.is_nil(none)
    assert.equal('unavailable: NVML says 6 of GPU-2', why)
  end)
end)

describe('a timer (F152)', function()
  it('tells seconds, laps, and begins anew', function()
    local t = ridge.timer()
    spin(0.02)
    assert.is_true(t:lap() >= 0.02)
    local at = t:seconds()
    assert.is_true(at >= 0.02)
    assert.is_true(t:lap() < at)
    assert.is_true(t:restart() >= at)
    local lap = t:lap() -- since it began anew
    assert.is_true(lap <= t:seconds() and lap < at)
    assert.is_true(t:seconds() < at)
    assert.matches('^%d.* ?[mnµ]?s$', (tostring(t):gsub('\226\128\175', ' ')))
  end)
end)

describe('what is available (F158)', function()
  it('is told with the reason', function()
    assert.is_true(ridge.available 'cpu')
    local ok, why = ridge.available 'cuda'
    assert.same({ ridge.device.available() }, { ok, why })
    assert.is_true(ok or #why > 10)
    local cudnn, no_cudnn = ridge.available 'cudnn'
    assert.is_true(cudnn or #no_cudnn > 10)
    if not ok then -- no library without a device, for the reason that there is none
      for _, name in ipairs { 'cudnn', 'nvrtc' } do
        assert.same({ false, why }, { ridge.available(name) })
      end
    end
    local last, no_last = ridge.available 'cuda:15'
    assert.is_true(last or #no_last > 10)
    local best = ridge.backend.now().isa
    if best ~= 'base' then assert.is_true(ridge.available(best)) end
    local amx, no_amx = ridge.available 'amx'
    assert.is_true(amx or no_amx:find 'this processor has no amx' ~= nil)
    assert.is_false((ridge.available 'cuda:99'))
  end)

  it('is of what is known', function()
    fails("did you mean 'cudnn'?", ridge.available, 'cudnnn')
    fails('a name is expected', ridge.available, 7)
  end)
end)

describe('the number of a GPU', function()
  it('lies below what there is room for', function()
    assert.same({ false, 'devices are numbered up to 15' }, { ridge.available 'cuda:16' })
    assert.not_matches('numbered', (select(2, ridge.available 'cuda:15')) or '')
  end)
end)
