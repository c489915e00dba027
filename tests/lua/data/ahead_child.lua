-- SPDX-License-Identifier: MIT
-- Run by loader_gpu_spec with RIDGE_GPU naming the simulated GPU, in several orders of its work:
-- batches that are copied ahead of use.
local ridge = require 'ridge'
local memory = ridge.memory
local Loader = ridge.data.Loader
local random = (os.getenv 'RG_SIM_ORDER' or ''):find 'rand'

local function check(what, ok, why)
  if not ok then print('not ok ' .. what .. ': ' .. tostring(why)) end
end

local function refused(what, words, f, ...)
  local ok, err = pcall(f, ...)
  check(what, not ok and tostring(err):find(words, 1, true), ok and 'it was allowed' or err)
end

local function collect()
  require('jit').flush() -- compiled code holds the functions it was compiled for
  require('ridge.ffi.ref').collect()
  memory.trim 'pinned'
  memory.trim 'sim:0'
end

local function live()
  collect()
  return ('%d and %d pinned'):format(memory.stats('sim:0').live, memory.stats('pinned').live)
end

local x = ridge.arange(0, 499):reshape(100, 5)
local y = ridge.arange(0, 99, { dtype = 'i64' })

-- An epoch whose work is pending while the next batches come; what came out, in order.
local function epoch(loader)
  local sums, labels = {}, {}
  for a, b in loader:each() do
    check('its device', a.device == 'sim:0' and b.device == 'sim:0' and b.dtype == 'i64')
    sums[#sums + 1], labels[#labels + 1] = (a * 2):sum(2), b + 1
  end
  local list = {}
  for i, sum in ipairs(sums) do
    local s, l = sum:tolist(), labels[i]:tolist()
    for k = 1, #s do
      list[#list + 1] = l[k] - 1
      -- the row of label n holds 5n .. 5n + 4: what belongs together stays together
      check('a row', s[k] == 2 * (25 * list[#list] + 10),
        ('%g of row %g'):format(s[k], list[#list]))
    end
  end
  return list
end

local function same(a, b)
  return table.concat(a, ' ') == table.concat(b, ' ')
end

local before = live()
local reference = {}
for a, b in Loader({ x, y }, { batch = 8, seed = 3 }):each() do
  check('the reference', a.device == 'cpu')
  for _, v in ipairs(b:tolist()) do reference[#reference + 1] = v end
end
-- In a function of its own: what it leaves behind is dead.
local function whole(opts)
  local loader = Loader({ x, y }, opts)
  local first = epoch(loader)
  check('an epoch', #first == 100 and same(first, reference), table.concat(first, ' '))
  check('another one', not same(epoch(loader), first))
  local host = memory.stats('pinned').live
  check('pinned memory', (host > 0) == (opts.pinned ~= false), host)
end

for _, workers in ipairs { 0, 1, 3 } do
  for _, more in ipairs { {}, { prefetch = 1 }, { prefetch = 5 }, { pinned = false } } do
    more.batch, more.seed, more.device, more.workers = 8, 3, 'sim:0', workers
    whole(more)
    collect()
  end
end
check('nothing is left', live() == before, live())

-- an epoch that is left half-way, again and again, and the loader that is released
local function halves()
  local loader = Loader({ x, y }, { batch = 8, seed = 3, device = 'sim:0', workers = 2 })
  for i = 1, 6 do
    local n = 0
    for a in loader:each() do
      n = n + 1
      check('half', a:size(1) == 8)
      if n == i then break end
    end
  end
  check('and a whole one', #epoch(loader) == 100)
  loader:each()()
end
halves()
check('nothing is left of halves', live() == before, live())

-- scopes around the work do not end the batches under way
do
  local loader, total = Loader({ x }, { batch = 10, seed = 1, device = 'sim:0' }), 0
  local next_batch = loader:each()
  for _ = 1, 10 do
    total = total + memory.scope(function() return next_batch():sum():item() end)
  end
  check('in scopes', total == 499 * 250 and next_batch() == nil, total)
end

-- copies and work are on two streams, and a batch waits for no copy but its own
local loader = Loader({ x, y }, { batch = 4, seed = 3, device = 'sim:0', prefetch = 3 })
local function run() return epoch(loader) end
local t = ridge.timeline(run)
local ahead = false
local function is_copy(s) return s.device == 'sim:0' and s.stream == 1 end
local function is_work(s) return s.device == 'sim:0' and s.stream == 0 and s.name ~= 'copy' end
local copies, work, last_end = 0, 0, 0
for _, span in ipairs(t.spans) do
  if is_copy(span) then
    copies = copies + 1
    check('only copies there', span.name == 'copy')
    last_end = math.max(last_end, span.end_s)
  elseif is_work(span) then
    work = work + 1
    ahead = ahead or span.begin_s < last_end -- it did not wait for all copies asked for before it
  end
end
check('copies', copies == 50, copies)
check('work', work >= 75, work)
if random then
  check('work goes ahead of later copies', ahead, t:list())
  check('side by side', t:overlap(is_copy, is_work) > 0, t)
end

-- on one stream, when the backend says so
ridge.set_default_backend(ridge.backend.cuda { streams = 1 })
t = ridge.timeline(run)
for _, span in ipairs(t.spans) do check('one stream', span.stream == 0, span.stream) end
ridge.set_default_backend(ridge.backend.cuda {})
t = ridge.timeline(run)
copies = 0
for _, span in ipairs(t.spans) do copies = copies + (is_copy(span) and 1 or 0) end
check('two again', copies == 50, copies)
-- who computes on stream 1 gets copies on another one
t = ridge.timeline(function() return ridge.device.on_stream('sim:0', 1, run) end)
copies = 0
for _, span in ipairs(t.spans) do
  copies = copies + (span.stream == 2 and span.name == 'copy' and 1 or 0)
end
check('another stream', copies == 50, copies)
ridge.set_default_backend(ridge.backend.cpu {})

-- sources on the GPU are gathered there
local there = Loader({ x:to 'sim:0', y:to 'sim:0' }, { batch = 8, seed = 3 })
check('gathered there', same(epoch(there), reference))
check('in place', #epoch(Loader({ x:to 'sim:0', y:to 'sim:0' },
  { batch = 8, shuffle = false })) == 100)
refused('threads there', 'threads and transforms gather on the CPU', Loader, { x:to 'sim:0' },
  { workers = 1 })
refused('from a GPU', 'and so are their batches', Loader, { x:to 'sim:0' }, { device = 'cpu' })
refused('two places', 'tensor 2 is on cpu and the first on sim:0', Loader, { x:to 'sim:0', y })
refused('no such device', 'there is 1 GPU', Loader, { x }, { device = 'sim:1' })
check('text', tostring(loader):find('on sim:0', 1, true), tostring(loader))

-- a transform, whose failure is told, and after which the loader still works
local doubled = Loader({ x, y }, { batch = 8, seed = 3, device = 'sim:0', workers = 2,
  transform = function(number, row)
    if number == 77 then error 'row 77 is bad' end
    row[0] = row[0] + 1
  end })
for _ = 1, 2 do refused('a failure', 'row 77 is bad', epoch, doubled) end
print 'done'
