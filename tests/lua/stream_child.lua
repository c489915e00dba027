-- SPDX-License-Identifier: MIT
-- Run by device_spec with RIDGE_GPU naming the simulated GPU, in several orders of its work:
-- streams, events, pinned memory, copies between devices.
local ridge = require 'ridge'
local device, memory = ridge.device, ridge.memory

local function check(what, ok, why)
  if not ok then print('not ok ' .. what .. ': ' .. tostring(why)) end
end

local function refused(what, words, f, ...)
  local ok, err = pcall(f, ...)
  check(what, not ok and tostring(err):find(words, 1, true), ok and 'it was allowed' or err)
end

local GPU = { device = 'sim:0' }

-- what there is
check('count', device.count() == 1 and device.available() == true and device.best() == 'sim:0')
check('names', table.concat(device.names(), ' ') == 'cpu sim:0')
check('describe (F1)', device.describe('auto'):find(
  '^sim:0: simulated device 0, 8%.0 GB, capability 9%.0'), device.describe 'auto')
local facts = device.facts 'sim:0'
check('facts', facts.kind == 'sim' and facts.memory == 2 ^ 33 and facts.free <= facts.memory
  and facts.capability == '9.0' and facts.units > 0)
check("'auto'", ridge.zeros(2, { device = 'auto' }).device == 'sim:0'
  and ridge.ones(2):to('auto').device == 'sim:0')

-- streams: entered, left by any way, and the work of several in the right order
check('a stream is entered', device.on_stream('sim:0', 3, function(a, b)
  check('inside', device.stream 'sim:0' == 3 and a == 1 and b == 2)
  return device.on_stream('sim:0', 1, device.stream, 'sim:0')
end, 1, 2) == 1)
check('and left', device.stream 'sim:0' == 0)
refused('an error inside', 'on purpose', device.on_stream, 'sim:0', 2, function()
  error 'on purpose'
end)
check('leaves it too', device.stream 'sim:0' == 0)
refused('a stream too many', 'they go from 0 to 7', device.on_stream, 'sim:0', 8, print)
refused('a stream in a capture', 'a plan is of one stream', ridge.capture, function()
  return device.on_stream('sim:0', 1, ridge.ones, 2, GPU)
end)
local x = ridge.randn(40, 30)
local wanted = ((x * 2):tanh():sum(2) + 1):tolist()
for _ = 1, 5 do
  local there = device.on_stream('sim:0', 1, function() return x:to 'sim:0' * 2 end)
  local other = device.on_stream('sim:0', 2, function() return there:tanh() end)
  local sum = other:sum(2) + 1
  device.on_stream('sim:0', 1, function() there:fill_(7) end) -- behind who still reads it
  local got = sum:to('cpu'):tolist()
  for i, v in ipairs(wanted) do check('streams', math.abs(got[i] - v) < 1e-4, got[i]) end
end

-- events
local a, b, never = device.event 'sim:0', device.event 'sim:0', device.event 'sim:0'
a:set()
local y = ridge.ones(1000, GPU):exp()
b:set()
device.on_stream('sim:0', 1, function() b:follow() end)
check('time', b:wait():since(a) > 0, b:since(a))
refused('no mark', 'was not set', function() return never:since(a) end)
refused('two devices', 'two devices', function() return device.event('cpu'):set():since(a) end)
check('nobody waits for a mark that was not set', never:follow():wait() == never)
check('text', tostring(a) == 'event of sim:0')
device.wait 'sim:0'

-- pinned memory: by the constructors, by pin, by to; copies are right without a wait
local pinned = ridge.zeros(33, { pinned = true })
check('pinned zeros', pinned.is_pinned and pinned.device == 'cpu' and pinned:sum():item() == 0)
check('not pinned', not ridge.zeros(3).is_pinned and not y.is_pinned)
check('pinned tensor', ridge.tensor({ 1, 2 }, { pinned = true }).is_pinned
  and ridge.tensor({ 1, 2 }, { pinned = true }):tolist()[2] == 2)
check('pinned randn', ridge.randn(5, { pinned = true }).is_pinned)
check('pin', x:pin().is_pinned and x:pin():equal(x) and not x.is_pinned)
check('pin of the GPU', y:pin().is_pinned and math.abs(y:pin():get(1) - math.exp(1)) < 1e-5)
local twice = x:pin()
check('pin again', rawequal(twice:pin(), twice))
check('to', x:to('cpu', { pinned = true }).is_pinned
  and x:to { dtype = 'f64', pinned = true }.dtype == 'f64' and y:to { pinned = true }.is_pinned)
refused('pinned on a GPU', 'it cannot be on sim:0', ridge.zeros, 2,
  { pinned = true, device = 'sim:0' })
refused('an option', "unknown option 'pined'", x.to, x, { pined = true })
for i = 1, 20 do -- the buffer is written again while its copy is on its way
  pinned:fill_(i)
  local there = pinned:to 'sim:0'
  pinned:fill_(-1)
  check('a copy of pinned memory', there:sum():item() == 33 * i, there:sum():item())
  local back = there:to('cpu', { pinned = true })
  check('back', back:sum():item() == 33 * i)
end

-- copy_ over devices: broadcast, converted, with gaps, into what a plan reads
local there = ridge.zeros(4, 3, GPU)
there:copy_(ridge.tensor({ 1, 2, 3 }))
check('copy_ broadcasts', there:to('cpu'):equal(ridge.tensor({ 1, 2, 3 }):expand(4, 3)))
there:copy_(ridge.arange(0, 11, { dtype = 'i64' }):reshape(4, 3))
check('copy_ converts', there:to('cpu'):equal(ridge.arange(0, 11):reshape(4, 3)))
there:t():copy_(ridge.arange(0, 11):reshape(3, 4))
check('copy_ into gaps', there:t():to('cpu'):equal(ridge.arange(0, 11):reshape(3, 4)))
local here = ridge.zeros(3, 4)
here:copy_(there:t())
check('copy_ out of gaps', here:equal(ridge.arange(0, 11):reshape(3, 4)))
here:t():copy_(there)
check('copy_ to the CPU', here:equal(ridge.arange(0, 11):reshape(3, 4)))
local input = ridge.zeros(4, GPU)
local plan = ridge.capture(function() return input * 2 + 1 end)
for i = 1, 4 do
  input:copy_(ridge.full(i, 4))
  check('a plan', plan():to('cpu'):equal(ridge.full(2 * i + 1, 4)))
end
local f = plan:facts()
check('facts of a plan', f.device == 'sim:0' and f.device_graph == true and f.why == nil, f.why)
check('text of a plan', tostring(plan):find('on sim:0 as one graph', 1, true), tostring(plan))
check('of the CPU', ridge.capture(function() return x + 1 end):facts().device == 'cpu')

-- the timeline: what ran where
local t, result = ridge.timeline(function()
  local up = device.on_stream('sim:0', 1, function()
    return ridge.ones(50, 50):pin():to 'sim:0'
  end)
  plan()
  return up:exp():sum():to 'cpu'
end)
check('its result', result:item() > 2500)
local seen = {}
for _, span in ipairs(t.spans) do
  seen[('%s %s %d'):format(span.name, span.device, span.stream)] = true
  check('time goes on', span.end_s >= span.begin_s and span.begin_s >= 0)
end
for _, key in ipairs { 'copy sim:0 1', 'exp sim:0 0', 'sum sim:0 0', 'plan sim:0 0',
  'copy sim:0 0', 'fill cpu 0' } do
  check('the timeline', seen[key], key .. ' is missing: ' .. t:list())
end
check('rows', #t:streams() == 3 and tostring(t):find('sim:0 stream 1', 1, true), t)
refused('an error in it', 'on purpose', ridge.timeline, function() error 'on purpose' end)
check('and the next one', #(ridge.timeline(function() return x + 1 end)).spans == 1)

-- the default device
check('default', device.default() == 'cpu' and device.set_default 'auto' == 'sim:0'
  and device.default() == 'sim:0')
check('made there', ridge.zeros(2).device == 'sim:0' and ridge.randn(2).device == 'sim:0'
  and ridge.tensor({ 1 }).device == 'sim:0' and ridge.ones(2, { device = 'cpu' }).device == 'cpu')
local layer = ridge.nn.Linear(3, 2)
check('layers too', layer.weight.device == 'sim:0' and layer(ridge.ones(1, 3)).device == 'sim:0')
local norm = ridge.nn.BatchNorm(3)
check('and norms', norm.weight.device == 'sim:0' and norm.running_mean.device == 'sim:0')
local images, labels = ridge.data.segments(20)
check('but no data', images.device == 'cpu' and labels.device == 'cpu')
device.set_default 'cpu'
check('back', ridge.zeros(2).device == 'cpu' and ridge.nn.Linear(3, 2).weight.device == 'cpu')
check('what it was made from', layer:clone().weight.device == 'sim:0')
plan:release()
memory.trim 'sim:0'
print 'done'
