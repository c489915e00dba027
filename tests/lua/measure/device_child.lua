-- SPDX-License-Identifier: MIT
-- Run by device_spec with RIDGE_GPU naming the simulated GPU: what measuring does on a device. The
-- simulator does nothing that is asked for before somebody waits, so that a measurement which does
-- not wait finds that no work takes any time.
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local device = require 'ridge.measure.device'
local measure = require 'ridge.measure'
local native = require 'ridge.measure.native'

local part = ... or arg[1]

local function check(what, ok, why)
  if not ok then print('not ok ' .. what .. ': ' .. tostring(why)) end
end

local function has(result, flag)
  for _, name in ipairs(result.flags) do
    if name == flag then return true end
  end
  return false
end

local SHORT = { level = 'quick', window_ns = 1e4, warm_min_ns = 0, warm_max_ns = 1e6,
                warm_window_ns = 1e5, quiet_ns = 0, samples = 2 }

local function short(fields)
  local out = {}
  for name, value in pairs(SHORT) do out[name] = value end
  for name, value in pairs(fields or {}) do out[name] = value end
  return out
end

-- Work that takes the simulator well above a millisecond, and the host microseconds to ask for.
local function work()
  local x = ridge.randn(192, 192, { device = 'sim:0' })
  return function() return x:matmul(x) end
end

-- The least that the work can take, in ns: processor time of this process, which does the simulated
-- device's work when somebody waits. Unlike a time of the clock on the wall it does not grow where
-- others have the processor, and no window is shorter.
local function truth(f)
  local least = math.huge
  for _ = 1, 5 do
    device.wait()
    local began = os.clock()
    f()
    device.wait()
    least = math.min(least, 1e9 * (os.clock() - began))
  end
  return least
end

local PARTS = {}

function PARTS.waiting()
  local f = work()
  local least = truth(f)
  check('the work is worth timing', least > 5e5, least)
  local plan = ridge.capture(f)
  local asking = math.huge -- over doing; the least, since others may take the processor away
  for _, stream in ipairs { 0, 3 } do
    check('stream', C.rg_stream_enter(1, stream, nil) == 0)
    for _, k in ipairs { 1, 3 } do
      for i, w in ipairs(native.windows(plan)(k, 2, false)) do
        local what = ('plan, stream %d, %d calls, window %d'):format(stream, k, i)
        check(what .. ': the device', w.device_ns > 0.3 * k * least, w.device_ns)
        check(what .. ': is what counts', w.ns == w.device_ns, w.ns)
        check(what .. ': the host waits', w.end_ns - w.begin_ns > 0.3 * k * least)
        asking = math.min(asking, w.issue_ns / w.device_ns)
      end
    end
    check('the stream is as it was', C.rg_stream_now(1) == stream, C.rg_stream_now(1))
  end
  check('asking is not doing', asking < 0.3, asking)
  check('back', C.rg_stream_enter(1, 0, nil) == 0)
  for _, w in ipairs(native.windows(f, 1)(2, 2, false)) do
    check('a function: the host waits', w.end_ns - w.begin_ns > 0.6 * least)
    check('a function: the device', w.device_ns > 0.6 * least, w.device_ns)
    check('a function: the host counts', w.ns == nil)
  end
  -- nobody said that it asks a device
  for _, w in ipairs(native.windows(f)(1, 2, false)) do
    check('any function waits', w.end_ns - w.begin_ns > 0.3 * least, w.end_ns - w.begin_ns)
  end
  -- what was asked for before is not part of a window
  local shortest = math.huge
  for _ = 1, 20 do -- until others leave it the processor
    for _ = 1, 20 do f() end
    local w = native.windows(plan)(1, 1, false)[1]
    shortest = math.min(shortest, w.end_ns - w.begin_ns)
    if shortest < 10 * least then break end
  end
  check('earlier work is waited for first', shortest < 10 * least, shortest)
  local parts = ridge.ones(4)
  local both = ridge.capture(function() return f(), parts + 1 end)
  local w = native.windows(both)(2, 1, false)[1]
  check('a plan of several devices waits', w.end_ns - w.begin_ns > 0.6 * least and not w.ns)
end

-- The device is kept busy while the host asks, and what keeps it busy is not part of the time.
function PARTS.filled()
  local x = ridge.ones(4, { device = 'sim:0' })
  local plan = ridge.capture(function() return x + 1 end)
  local take = native.windows(plan)
  local alone, before = math.huge, math.huge
  for _ = 1, 5 do alone = math.min(alone, take(1, 1, false)[1].ns) end
  local filled = 0 -- others may take the processor away while the host asks
  for i, w in ipairs(take(16, 48, false)) do
    filled = filled + (w.filled and 1 or 0)
    if i > 1 then before = math.min(before, w.ns) end
  end
  check('windows are', filled > 0, filled)
  check('and hold 16 calls', before > 4 * alone and before < 64 * alone,
    ('%g and %g'):format(before, alone))
  check('one call is not', not take(1, 1, false)[1].filled)
end

function PARTS.points()
  local f = work()
  local r = measure.point(ridge.capture(f), short())
  check('its device', r.device == 'sim:0' and r.clock == 'device events', r.clock)
  check('simulated', r.simulated and has(r, 'SIMULATED') and r.grade == 'D',
    table.concat(r.flags, ' '))
  check('both clocks', r.host_ns >= r.device_ns * 0.9 and r.issue_ns < 0.5 * r.device_ns)
  check('the median is the device\'s', r.med == r.device_ns, r.med)
  local cold = measure.point(ridge.capture(f), short { cache = 'cold' })
  check('cold', cold.cache == 'cold' and cold.inner == 1 and cold.med > 0)
  r = measure.block({ { plan = f, device = 'sim:0' } }, short())[1]
  check('a function', not r.error and has(r, 'LUA') and r.device_ns and r.med == r.host_ns,
    r.error)
  local x = ridge.ones(64)
  for what, plan in pairs { ['a function that does not say'] = f,
    ['a plan of several'] = ridge.capture(function() return f(), x + 1 end) } do
    r = measure.point(plan, short())
    check(what, has(r, 'SIMULATED') and r.device == nil and r.med > 1e5, r.med)
  end
  r = measure.point(ridge.capture(function() return x + 1 end), short())
  check('the CPU is as it was', r.device == nil and not has(r, 'SIMULATED')
    and r.clock == 'CLOCK_MONOTONIC_RAW')
  -- what is cold on one device is not on another
  local slot = require('ffi').new 'rg_flush *[1]'
  check('flush', C.rg_flush_new(0, 4096, slot) == 0)
  local window = require('ffi').new 'rg_window[1]'
  check('another device\'s caches', C.rg_measure_windows(ridge.capture(f):handle(), 1, 1, slot[0],
    window) == C.RG_EARG)
  C.rg_flush_release(slot[0])
  check('the device\'s own', C.rg_flush_new(1, 0, slot) == 0
    and C.rg_flush_bytes(slot[0]) == 2 * device.facts(1).cache, C.rg_flush_bytes(slot[0]))
  C.rg_flush_release(slot[0])
end

function PARTS.verdict()
  local f, g = work(), work()
  local found = measure.ab { a = ridge.capture(f), b = ridge.capture(g), check = false,
    blocks = 6, looks = 3, slot_ns = 1e4, protocol = short() }
  check('no verdict', found.verdict == 'open' and found.simulated and found.looks == 1,
    found.verdict)
  check('it says why', tostring(found):find('the device is simulated: no verdict', 1, true)
    and has(found, 'SIMULATED'), tostring(found))
end

function PARTS.ceilings()
  local list = require('ridge.measure.device_ceiling').open('sim:0',
    { side = 16, l2_bytes = 2048, dram_bytes = 4096 })
  local names = {}
  for i, c in ipairs(list) do
    names[i] = c.name
    local rate = c.run(1e4)
    check(c.name, rate > 0 and rate < math.huge, rate)
    c.close()
  end
  check('all of them', table.concat(names, ' ') == 'bw.l2 bw.dram product.f64 product.f32 '
    .. 'product.tf32 product.f16 product.bf16', table.concat(names, ' '))
  check('the modes are as they were', device.modes().tf32 == false)
  local ok, err = pcall(require('ridge.sweep.calibrated').measure, { device = 'sim:0' })
  check('a simulated device has none', not ok and tostring(err):find('is simulated', 1, true), err)
end

function PARTS.profile()
  local f = work()
  local least = truth(f)
  local p, op
  for _ = 1, 5 do -- others may take the processor away while the host asks
    p = ridge.profile(f)
    op = p.operations[1]
    if op.ns < 0.3 * (op.device_ns or 0) then break end
  end
  check('the device\'s time of an operation', op.op == 'matmul' and op.device_ns
    and op.device_ns > 0.3 * least, op.device_ns)
  check('and of all', p.device_ns >= op.device_ns, p.device_ns)
  check('asking is not doing', op.ns < 0.3 * op.device_ns, op.ns)
  local x = ridge.ones(8)
  check('the CPU has none', ridge.profile(function() return x + 1 end).device_ns == nil)
end

-- The same sweep on the CPU and on the device, into databases of their own.
function PARTS.stored()
  local folder = os.getenv 'FOLDER'
  local function run(where, db)
    return pcall(function()
      local sw = ridge.sweep 'one' { space = { n = { 32 } }, device = where, protocol = short(),
        setup = function(p) return ridge.ones(p.n, { device = where }) end,
        measure = function(_, x, m)
          m:time('add', ridge.capture(function() return x + 1 end))
          m:time('call', function() return x + 1 end)
          m:peak('add', function() return x + 1 end)
        end }
      return sw:run { db = folder .. db, calibrate = false, progress = false } and sw
    end)
  end
  local ok, here = run('cpu', '/here.db')
  check('on the CPU', ok, here)
  local found, there = run('sim:0', '/there.db')
  check('on the device', found, there)
  local row = there:results()[1]
  check('the function too', row.call and row.call_device_ns and row.call_flags:find 'SIMULATED',
    row.call_flags)
  check('its memory', row.add_peak_bytes >= 128, row.add_peak_bytes)
  check('the CPU has no device', here:results()[1].add_issue_ns == nil)
  local again, err = run('cpu', '/there.db')
  check('one name is one device', not again and tostring(err):find('the arguments', 1, true), err)
  for _, c in ipairs((ridge.compare(folder .. '/here.db', folder .. '/there.db'))) do
    check('no comparison', c.verdict == 'open' and c.reason:find 'another device', c.reason)
  end
end

function PARTS.names()
  local f = work()
  f() -- a device is there
  local before = ridge.profile_names(true)
  check('off at first', before == false)
  ridge.profile_range('outer', function() f() end)
  check('on', ridge.profile_names(false) == true)
  f()
  device.wait()
end

function PARTS.hidden()
  local s = device.state(1)
  check('why', s.why == 'there is no libnvidia-ml.so.1 here' and not s.held and not s.clock_mhz,
    s.why)
  local r = measure.point(ridge.capture(work()), short())
  check('hidden is not clean', r.held == nil and not has(r, 'THROTTLE'))
end

function PARTS.state()
  local s = device.state(1)
  check('numbers', s.clock_mhz == 1500 and s.memory_mhz == 2600 and s.celsius == 61
    and s.watts == 345.6 and s.limit_watts == 700 and s.driver == '999.1.2' and not s.why, s.why)
  check('nothing holds it', s.held == 0 and s.words == '', s.words)
  local r = measure.point(ridge.capture(work()), short())
  check('not held', r.held == 0 and not has(r, 'THROTTLE') and r.clock_mhz == 1500, r.held)
  check('before and after', r.state.before.celsius == 61 and r.state.after.watts == 345.6)
  local below = { ceilings = {}, device_hz = 2.1e9 }
  r = measure.block({ { plan = ridge.capture(work()) } }, short(), { calibration = below })[1]
  check('far below the sustained clock', has(r, 'THROTTLE'), table.concat(r.flags, ' '))
end

function PARTS.held()
  local s = device.state(1)
  check('words', s.words == os.getenv 'WANTED_WORDS', s.words)
  local r = measure.point(ridge.capture(work()), short())
  local wanted = os.getenv 'WANTED_FLAG' == '1'
  check('flagged', has(r, 'THROTTLE') == wanted and r.held == (wanted and 1 or 0), r.held)
  for _, mark in ipairs(r.mark) do
    check('each sample is marked', (mark >= 4) == wanted, mark)
  end
end

function PARTS.broken()
  check('why', device.state(1).why == 'libnvidia-ml.so.1 does not start (code 9)',
    device.state(1).why)
end

PARTS[part]()
print 'done'
