-- SPDX-License-Identifier: MIT
-- Run by device_spec with RIDGE_GPU naming the simulated GPU: its memory by device and tag, what is
-- dead in Lua, memory that runs out, and a backend's options.
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local backend, memory = ridge.backend, ridge.memory

local function check(what, ok, why)
  if not ok then print('not ok ' .. what .. ': ' .. tostring(why)) end
end

local function refused(what, words, f, ...)
  local ok, err = pcall(f, ...)
  check(what, not ok and tostring(err):find(words, 1, true), ok and 'it was allowed' or err)
  return err
end

local GPU = { device = 'sim:0' }
local MB = 2 ^ 20

local function stats() return memory.stats 'sim:0' end

-- counted by device
local before, cpu = stats(), memory.stats()
local x = ridge.zeros(MB / 4, GPU)
check('live', stats().live == before.live + MB and memory.stats().live == cpu.live)
check('reserved', stats().reserved >= stats().live and stats().peak >= stats().live)
x:release()
check('kept for the next one', stats().reserved >= MB and stats().live == before.live)
check('trim (F4)', memory.trim 'sim:0' >= MB and stats().reserved < MB, stats().reserved)
memory.reset_peak 'sim:0'
check('peak', stats().peak == stats().live and stats().peak_reserved == stats().reserved)
check('peak_of', memory.peak_of(function() return ridge.ones(1000, GPU) + 1 end, 'sim:0') >= 8000)
local line
do
  local print_before = print
  _G.print = function(text) line = text end -- luacheck: ignore 121
  memory.print_stats 'sim:0'
  _G.print = print_before -- luacheck: ignore 121
end
check('print (F2)', line:find '^allocated 0%.00 GB, reserved %d%.%d%d GB, max allocated', line)

-- pinned memory is counted for itself
local host = ridge.zeros(1000, { pinned = true })
check('pinned', memory.stats('pinned').live == 4000 and memory.trim('pinned') == 0)
host:release()
check('and given back', memory.trim('pinned') >= 4000)

-- by tag, on any device, as long as the memory lives
local weights = memory.tag('weights', ridge.zeros, 256, GPU)
local both = memory.tag('weights', function()
  local inner = memory.tag('inner', ridge.zeros, 64, GPU)
  refused('an error', 'on purpose', memory.tag, 'weights', function() error 'on purpose' end)
  return { inner, ridge.zeros(128) }
end)
local plain = ridge.zeros(512, GPU)
check('tags', stats().tags.weights.live == 1024 and stats().tags.inner.live == 256
  and stats().tags.weights.blocks == 1, stats().tags.weights.live)
check('of the CPU', memory.stats().tags.weights.live == 512 and not memory.stats().tags.inner)
weights:release()
both[1]:release()
check('ended', stats().tags.weights.live == 0 and stats().tags.weights.peak == 1024
  and stats().tags.inner.live == 0)
memory.reset_peak 'sim:0'
check('forgotten', stats().tags.weights == nil)
refused('a name', 'a name is expected', memory.tag, 3, print)
refused('a long name', 'a name of 1 to 31 bytes', memory.tag, ('x'):rep(32), print)
plain:release()

-- tensors that are dead in Lua go before the memory ends: it is never even near its limit
for _ = 1, 5000 do check('made', ridge.empty(MB / 4, GPU).count == MB / 4) end -- it goes lazily
memory.trim 'sim:0'
memory.set_limit(stats().live + 64 * MB, 'sim:0')
memory.reset_peak 'sim:0'
for i = 1, 1000 do
  local big = ridge.empty(MB / 4, GPU)
  check('made', big.count == MB / 4, i)
end
check('the collector hurries', stats().peak < 60 * MB, stats().peak / MB)
local heap = {} -- large, so that a cycle of the collector is long
for i = 1, 200000 do heap[i] = { i } end
local held = ridge.empty(12 * MB, GPU) -- 48 of the 64
memory.reset_peak 'sim:0'
for i = 1, 200 do check('made', ridge.empty(MB / 8, GPU).count == MB / 8, i) end
check('the more where it is nearly full', #heap > 0 and stats().peak < 62 * MB, stats().peak / MB)
held:release()
memory.set_limit(0, 'sim:0')

-- memory that runs out is an error with its code
memory.trim 'sim:0'
memory.set_limit(stats().live + 100, 'sim:0')
local err = refused('a limit', 'would pass the limit', ridge.zeros, 1000, GPU)
check('its code', err.code == 'ENOMEM', err.code)
memory.set_limit(0, 'sim:0')
refused('what nobody has', 'the device has no', ridge.zeros, 3 * 2 ^ 30, GPU)

-- a sweep records it and goes on
local folders = dofile 'tests/lua/store/folder.lua'
local cheap_lab = dofile 'tests/lua/sweep/cheap_lab.lua'
local folder = folders.new()
local sw = ridge.sweep 'memory' {
  space = { mb = ridge.any { 1, 2 ^ 14, 2 } },
  measure = function(p, _, m)
    local big = ridge.empty(p.mb * MB / 4, GPU)
    m:metric('v', big.count)
  end,
}
sw:run { db = folder .. '/s.db', lab = cheap_lab.new(), progress = false }
local st = require('ridge.store').open(folder .. '/s.db', 'read')
check('recorded', st.db:value "SELECT count(*) FROM attempt WHERE outcome = 'oom'" > 0)
check('others are done', st.db:value "SELECT count(*) FROM attempt WHERE outcome = 'ok'" == 2)
st:close()
folders.remove(folder)

-- the backend: every option is in force, and recorded
local modes = C.rg_device_modes_now()
local function now(name) return backend.now()[name] end
check('modes', now 'vendor' == true and now 'autotune' == true and now 'tf32' == false
  and now 'deterministic' == false and now 'device' == nil)
ridge.set_default_backend(backend.cuda { vendor = false, autotune = false, deterministic = true,
  tf32 = true, memory_fraction = 0.5, streams = 3 })
check('set', modes.vendor == 0 and modes.autotune == 0 and modes.deterministic == 1
  and modes.tf32 == 1)
check('seen', now 'vendor' == false and now 'autotune' == false and now 'deterministic' == true
  and now 'tf32' == true and now 'device' == 'sim:0' and now 'sim:0 memory_limit' == 2 ^ 32
  and now 'sim:0 streams' == 3)
local vars = require('ridge.sweep.lab').facts().env.vars
check('recorded with a measurement', vars.tf32 == true and vars.device == 'sim:0')
check('the default', ridge.zeros(2).device == 'sim:0')
check('the limit', stats().limit == 2 ^ 32)
err = refused('beyond the fraction', 'would pass the limit of 4096 MB', ridge.empty, 5 * 2 ^ 28)
check('out of it', err.code == 'ENOMEM')
refused('the streams', 'they go from 0 to 2', ridge.device.on_stream, 'sim:0', 3, print)
local setting = backend.now()
ridge.set_default_backend(backend.cuda {})
backend.apply(setting) -- as a fresh process does
local again = backend.now()
for name, value in pairs(setting) do check(name .. ' is applied', again[name] == value) end
ridge.set_default_backend(backend.cuda { autotune_cudnn = true })
check('cuDNN as well', modes.autotune == 2 and now 'autotune' == true
  and now 'autotune_cudnn' == true
  and require('ridge.measure.device').modes_text():find('autotune=2', 1, true))
setting = backend.now()
ridge.set_default_backend(backend.cuda {})
backend.apply(setting)
check('cuDNN as well, applied', modes.autotune == 2)
ridge.set_default_backend(backend.cuda { autotune = false, autotune_cudnn = true })
check('not without the others', modes.autotune == 0 and now 'autotune_cudnn' == false)
ridge.set_default_backend(backend.cuda {})
check('all of it again', stats().limit == 0 and modes.vendor == 1 and modes.tf32 == 0
  and now 'sim:0 streams' == nil)
ridge.set_default_backend(backend.cpu {})
check('the CPU again', ridge.zeros(2).device == 'cpu' and now 'device' == nil)
refused('no such GPU', 'there is 1 GPU', ridge.set_default_backend, backend.cuda { device = 1 })
refused('an option', "did you mean 'tf32'?", backend.cuda, { tf23 = true })
refused('half of nothing', 'it lies between', backend.cuda, { memory_fraction = 2 })
check('still the CPU', ridge.device.default() == 'cpu')

-- what is cached counts against the fraction: others use the GPU too
memory.trim 'sim:0'
memory.set_limit(stats().reserved + 20 * MB, 'sim:0')
for _, mb in ipairs { 4, 5, 6, 7, 8, 9 } do ridge.empty(mb * MB / 4, GPU):release() end
check('what is cached', stats().peak_reserved <= stats().limit or stats().reserved <= stats().limit,
  stats().reserved)
memory.set_limit(0, 'sim:0')

-- up to the last byte that is free, whatever is cached in other sizes and of other streams
memory.trim 'sim:0'
memory.set_limit(stats().reserved + 16 * MB, 'sim:0')
local function on(stream, f) return ridge.device.on_stream('sim:0', stream, f) end
local function cache(mb) ridge.empty(mb * MB / 4, GPU):release() end
for stream = 0, 2 do on(stream, function() cache(2 + stream) end) end
check('cached on three streams', stats().reserved == stats().limit - 7 * MB, stats().reserved)
for stream = 0, 2 do
  on(stream, function()
    local big = ridge.empty(16 * MB / 4, GPU)
    check('all of it', big.count == 4 * MB and stats().reserved == stats().limit, stats().reserved)
    big:release()
  end)
end
memory.set_limit(0, 'sim:0')
memory.trim 'sim:0'

-- trim gives back what each stream keeps, and nothing twice
local kept = stats().reserved
for stream = 0, 7 do on(stream, function() cache(1 + stream) end) end
check('kept by stream', stats().reserved == kept + 36 * MB, stats().reserved - kept)
check('given back by all', memory.trim 'sim:0' == 36 * MB and stats().reserved == kept,
  stats().reserved)
check('once', memory.trim 'sim:0' == 0)
print 'done'
