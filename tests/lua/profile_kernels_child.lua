-- SPDX-License-Identifier: MIT
-- Run by profile_kernels_spec with the simulated GPU and the stand-in for CUPTI: what a profile
-- tells of kernels. Each part says what is wrong, then `done`.
local ffi = require 'ffi'
local ridge = require 'ridge'

local part = ... or arg[1]

local function check(what, ok, why)
  if not ok then print('not ok ' .. what .. ': ' .. tostring(why)) end
end

local function equal(what, wanted, got)
  check(what, wanted == got, ('%s, not %s'):format(tostring(got), tostring(wanted)))
end

-- A net, and one pass of it with a copy to the device and one back.
local function work()
  local net = ridge.nn.Sequential(ridge.nn.Linear(32, 16), ridge.nn.ReLU(), ridge.nn.Linear(16, 8))
  net:to 'sim:0'
  local x = ridge.randn(8, 32)
  local function f() return net(x:to 'sim:0'):softmax():to 'cpu' end
  f() -- cublasLt's algorithms are chosen, by running them
  return f
end

local function profile(f, options)
  options = options or {}
  if options.kernels == nil then options.kernels = true end
  options.lines = false
  return ridge.profile(f, options)
end

-- What was launched since this was asked last, as the simulator counts it itself.
ffi.cdef 'size_t rgsim_launched(char *text, size_t room);'
local function launched()
  local plugin, room = ffi.load(os.getenv 'RIDGE_GPU'), 2 ^ 16
  local buffer, list = ffi.new('char[?]', room), {}
  plugin.rgsim_launched(buffer, room)
  for line in ffi.string(buffer):gmatch '[^\n]+' do list[#list + 1] = line end
  table.sort(list)
  return list
end

-- The same lines of a profile's kernels, but for cublasLt's, which are none of those launches.
local function lines_of(p)
  local list = {}
  for _, k in ipairs(p.kernels) do
    local own = k.kind == 'kernel' and k.name ~= 'simulated_cublasLt_product'
    for _ = 1, own and k.calls or 0 do
      list[#list + 1] = ('%s\t%s\t%d\t%s'):format(table.concat(k.grid, ' '),
        table.concat(k.block, ' '), k.dynamic_bytes, k.name)
    end
  end
  table.sort(list)
  return list
end

local function calls(p, kind)
  local n = 0
  for _, k in ipairs(p.kernels) do if k.kind == kind then n = n + k.calls end end
  return n
end

local function notes(p) return table.concat(p.notes, '; ') end

local PARTS = {}

function PARTS.told()
  local f = work()
  launched()
  local p = profile(f)
  local all = launched()
  check('launches', #all >= 2, #all)
  equal('each launch is told as it was', table.concat(all, '\n'), table.concat(lines_of(p), '\n'))
  equal('copies', 2, calls(p, 'copy'))
  equal('no note', '', notes(p))
  local modules = {}
  for _, k in ipairs(p.kernels) do
    check('an operation', k.op ~= nil, k.name)
    if k.kind == 'kernel' then
      modules[k.op .. ' ' .. (k.module or '')] = true
      equal('registers', 32, k.registers)
    elseif k.kind == 'copy' then
      equal('bytes', k.name == 'host to device' and 8 * 32 * 4 or 8 * 8 * 4, k.bytes)
      equal('of a copy', 'copy', k.op)
    end
    check('a time', k.ns > 0 and k.min_ns <= k.max_ns and k.ns <= p.ns, k.ns)
    check('its share', math.abs(k.share - k.ns / p.ns) < 1e-12, k.share)
    equal('device', 'sim:0', k.device)
  end
  for _, op in ipairs(p.calls) do
    local name = op.op .. ' ' .. (op.module or '')
    check('each call has its kernels', modules[name], name)
  end
  check('a table', p:text():find('registers', 1, true), p:text())
  equal('asked for', p:table { by = 'kernel' }, p:table { by = 'kernel', sort = 'time' })
end

function PARTS.times()
  local x = ridge.randn(192, 192, { device = 'sim:0' })
  local p = profile(function() x:matmul(x) ridge.device.wait() end)
  local from, to = p.windows[1].from, p.windows[1].to
  local n = 0
  for row in require('ridge.profile.kernels').each(p) do
    n = n + 1
    check('inside of what was measured', row.from_ns >= from - 1e5 and row.to_ns <= to + 1e5,
      ('%f to %f of 0 to %f'):format(row.from_ns - from, row.to_ns - from, to - from))
  end
  check('some', n > 0, n)
end

function PARTS.occupancy()
  -- 255 registers are kept as 256: a block of 256 threads takes all 65536 of them, 8 warps of 64
  local x = ridge.ones(64, 64, { device = 'sim:0' })
  local p = profile(function() x:exp() end)
  local k = p.kernels[1]
  local threads = k.block[1] * k.block[2] * k.block[3]
  equal('threads', 256, threads)
  check('occupancy', math.abs(k.occupancy - tonumber(os.getenv 'WANTED')) < 1e-9, k.occupancy)
end

function PARTS.schedule()
  local x = ridge.ones(64, 64, { device = 'sim:0' })
  local y = ridge.ones(8, { device = 'sim:0' })
  local p = profile(function(_, i) if i == 3 then y:tanh() else x:exp() end end,
    { num_steps = 5, wait = 1, warmup = 1, active = 2 })
  local by = {}
  for _, k in ipairs(p.kernels) do by[k.op] = (by[k.op] or 0) + k.calls end
  equal('the third step', 1, by.tanh)
  equal('the fourth alone', 1, by.exp)
end

function PARTS.failing() -- what an operation that failed asked for is not the next one's
  local x = ridge.ones(64, 64, { device = 'sim:0' })
  local other = ridge.ones(64, 64, { device = 'sim:0' })
  local p = profile(function()
    pcall(function() return x:reshape(3, 3) end)
    pcall(function() return x:matmul(ridge.ones(3, 3, { device = 'sim:0' })) end)
    other:exp()
  end)
  local last
  for _, k in ipairs(p.kernels) do if k.op == 'exp' then last = k end end
  check('of its own', last and last.calls == 1, last and last.calls)
end

function PARTS.steps() -- of a plan each has its kernels
  local net = ridge.nn.Sequential(ridge.nn.Linear(8, 8), ridge.nn.Tanh()):to 'sim:0'
  local x = ridge.ones(4, 8, { device = 'sim:0' })
  local plan = ridge.capture(ridge.inference, net, x)
  plan:run(1)
  local p = profile(function() plan:run(3) end)
  local n = {}
  for _, k in ipairs(p.kernels) do n[k.op or '?'] = (n[k.op or '?'] or 0) + k.calls end
  check('steps', n['?'] == nil and next(n) ~= nil, n['?'])
  for _, s in ipairs(p.steps) do check(s.op, (n[s.op] or 0) >= 3, n[s.op]) end
end

function PARTS.twice() -- a second profile begins anew; one inside of another has none, and says why
  local f = work()
  local first = profile(f)
  local inner
  local second = profile(function() inner = profile(f) end)
  equal('as many again', calls(first, 'kernel'), calls(second, 'kernel'))
  equal('the inner one', 'kernels are recorded already, by another profile',
    inner.unavailable.cupti)
  check('none', inner.kernels == nil, inner.kernels)
  pcall(profile, function() f() error 'on purpose' end)
  equal('of what raised', calls(first, 'kernel'), calls(ridge.last_profile(), 'kernel'))
  local co = coroutine.create(function() profile(function() f() coroutine.yield() end) end)
  coroutine.resume(co)
  co = nil -- luacheck: ignore
  collectgarbage() collectgarbage()
  equal('behind one that was left', nil, profile(f).unavailable.cupti)
end

function PARTS.off() -- nobody asks: nothing is opened
  local f = work()
  local p = profile(f, { kernels = false, counters = true })
  check('none', p.kernels == nil and p.unavailable.cupti == nil, p.unavailable.cupti)
  ridge.profile(f, { lines = false })
  local log = io.open(os.getenv 'RG_CUPTI_LOG')
  check('not opened', log == nil, log and log:read '*a')
end

function PARTS.counters() -- those of the processor bring them, where nobody said otherwise
  local f = work()
  local p = ridge.profile(f, { counters = true, lines = false })
  check('kernels', p.kernels and #p.kernels > 0, p.unavailable.cupti)
  p = ridge.profile(f, { operation_counters = true, lines = false })
  check('by operation too', p.kernels and #p.kernels > 0, p.unavailable.cupti)
end

function PARTS.sums() -- of several runs: what the records one by one come to
  local x = ridge.randn(64, 64)
  local p = profile(function() for _ = 1, 5 do x:to('sim:0'):exp() end end)
  local by, n = {}, 0
  for row in require('ridge.profile.kernels').each(p) do
    local ns = row.to_ns - row.from_ns
    local s = by[row.kind] or { ns = 0, min = math.huge, max = 0, bytes = 0 }
    s.ns, s.min, s.max = s.ns + ns, math.min(s.min, ns), math.max(s.max, ns)
    s.bytes = s.bytes + (row.bytes or 0)
    by[row.kind], n = s, n + 1
  end
  equal('records', 10, n)
  equal('rows', 2, #p.kernels)
  for _, k in ipairs(p.kernels) do
    local s = by[k.kind]
    equal('calls', 5, k.calls)
    check('times', k.ns == s.ns and k.min_ns == s.min and k.max_ns == s.max and s.min < s.max)
    equal('bytes', k.kind == 'copy' and 5 * 64 * 64 * 4 or nil, k.bytes)
    check('rate', k.kind ~= 'copy' or k.gbps == s.bytes / s.ns, k.gbps)
  end
  check('the most first', p.kernels[1].ns >= p.kernels[2].ns)
end

function PARTS.refused()
  local p = profile(work())
  equal('why', os.getenv 'WANTED', p.unavailable.cupti)
  check('none', p.kernels == nil, p.kernels)
  check('told', p:text():find('(cupti: unavailable: ' .. os.getenv 'WANTED' .. ')', 1, true),
    p:text())
  check('the rest is there', #p.operations > 0 and p.ns > 0)
end

function PARTS.note()
  local p = profile(work())
  check('note', notes(p):find(os.getenv 'WANTED', 1, true), notes(p))
  check('told', p:text():find(os.getenv 'WANTED', 1, true), p:text())
end

function PARTS.room() -- the profile's own
  local x = ridge.ones(64, { device = 'sim:0' })
  local p = profile(function() for _ = 1, 40 do x:exp() end end, { bytes = 2 ^ 10 })
  local kept = math.floor(2 ^ 10 / ffi.sizeof 'rg_activity')
  equal('those that are kept', kept, p.traced.n)
  equal('those behind', 40 - kept, p.traced.full)
  check('note', notes(p):find(('%d records of kernels came when there was no more room'):format(
    40 - kept), 1, true), notes(p))
end

ffi.cdef [[
  typedef struct { size_t arena, free_n, fast_n, map_n, map, peak, fast, used, unused, top; } heap;
  heap mallinfo2(void);
]]
local function allocated()
  local heap = ffi.C.mallinfo2()
  return tonumber(heap.used + heap.map)
end

function PARTS.dropped() -- more buffers than there may be: what is missing is counted
  local x = ridge.ones(64, { device = 'sim:0' })
  local before = allocated()
  local p = profile(function() for _ = 1, 200 do x:exp() end end)
  check('dropped', p.traced.dropped > 0, p.traced.dropped)
  -- of each call: an id of ridge's, one of somebody's, the call, the kernel
  equal('all', 800, 64 * 2 + p.traced.dropped)
  check('note', notes(p):find(p.traced.dropped .. ' records of kernels were dropped by CUPTI', 1,
    true), notes(p))
  p = profile(function() x:exp() end)
  equal('buffers came back', 0, p.traced.dropped)
  equal('so that the next one has its kernel', 1, calls(p, 'kernel'))
  local grown = allocated() - before
  check('and were freed: 64 of 1 MiB', grown < 32 * 2 ^ 20, grown)
end

function PARTS.untimed()
  local x = ridge.ones(64, { device = 'sim:0' })
  local p = profile(function() for _ = 1, 9 do x:exp() end end)
  equal('calls', 9, p.kernels[1].calls)
  equal('without a time', 3, p.kernels[1].untimed)
  check('time of the others', p.kernels[1].ns > 0 and p.kernels[1].ns < p.ns, p.kernels[1].ns)
  p:trace(os.getenv 'TRACE')
end

function PARTS.trace()
  local p = profile(work())
  p:trace(os.getenv 'TRACE')
  local rows, runs = {}, 0
  for _, k in ipairs(p.kernels) do runs, rows[#rows + 1] = runs + k.calls, k end
  io.write('runs ', runs, '\n')
end

function PARTS.again() -- what was asked for is in the log, which the parent reads
  local f = work()
  profile(f)
  profile(f)
end

PARTS[part]()
print 'done'
