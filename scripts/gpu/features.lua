-- SPDX-License-Identifier: MIT
--- What each option of the device changed there: a line for each of F13, F23, F66, F96, F200, F205
--- to F209, `Fn held: facts`, `Fn FAILED: facts` or `Fn not timed: why`. Exit code 1 if one FAILED.
--
--     ./ridge scripts/gpu/features.lua [--tiny]

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'

local opt = ridge.args {
  { 'tiny', false, 'sizes for the simulator, where nothing is timed' },
  { 'child', '', 'a part that needs a process of its own' },
}
local DEVICE = ridge.device.best()
local GPU = { device = DEVICE }
local cuda = ridge.backend.cuda
local size = opt.tiny and 32 or 4096

local function set(options) ridge.set_default_backend(cuda(options)) end

if opt.child ~= '' then
  set { autotune = opt.child == 'timed' }
  for n = 1, 3 do
    local x = ridge.randn(size, size + 16 * n, GPU)
    x:t():matmul(x):release()
  end
  ridge.device.wait(DEVICE)
  os.exit(0, true)
end

local failed = 0
local function row(name, f)
  local ok, word, text = pcall(f)
  if not ok then word, text = 'FAILED', tostring(word):match '[^\n]*' end
  if word == 'FAILED' then failed = failed + 1 end
  print(('%s %s: %s'):format(name, word, text))
  io.flush()
  set {}
end

local function held(ok, ...)
  return ok and 'held' or 'FAILED', (...):format(select(2, ...))
end

local function now() return tonumber(C.rg_clock_ns()) / 1e6 end

-- Milliseconds until f has returned, and until the device is done.
local function asked(f)
  f()
  ridge.device.wait(DEVICE)
  local start = now()
  f()
  local returned = now() - start
  ridge.device.wait(DEVICE)
  return returned, now() - start
end

row('F13', function()
  set { memory_fraction = 0.01 }
  local limit = ridge.memory.stats(DEVICE).limit
  local ok, err = pcall(ridge.empty, math.floor(limit / 4) + 1024, GPU)
  if ok then return held(false, 'more than 0.01 of the memory was given') end
  local small = ridge.empty(1024, GPU)
  small:release()
  local before = ridge.memory.stats(DEVICE).reserved
  ridge.empty(1024, GPU):release()
  return held(err.code == 'ENOMEM' and tostring(err.message):find 'limit'
    and ridge.memory.stats(DEVICE).reserved == before,
    'of a share of %.0f MB more is refused, what was released is used again', limit / 2 ^ 20)
end)

row('F23', function()
  local x = ridge.randn(size, size, GPU)
  if opt.tiny then return 'not timed', 'no clock of the simulator says anything of a GPU' end
  local returned, done = asked(function() for _ = 1, 20 do x:matmul(x):release() end end)
  return held(returned < done / 2, '20 products are asked for in %.2f ms and done after %.2f ms',
    returned, done)
end)

row('F66', function()
  local x, y = ridge.randn(64, 64, GPU), nil
  local plan = ridge.capture(function() y = x:matmul(x):tanh():sum(2):softmax() end)
  local want = y:to 'cpu'
  plan:run(3)
  local facts = plan:facts()
  return held(facts.device_graph and y:to('cpu'):equal(want), '%d steps are one graph, same bits%s',
    #facts.steps, facts.device_graph and '' or ': ' .. tostring(facts.why))
end)

row('F96', function()
  local n = opt.tiny and 1000 or 2 ^ 26
  local plain = ridge.ones(n, { device = 'cpu' })
  local pinned = ridge.ones(n, { pinned = true })
  if not pinned.is_pinned then return held(false, 'the block is not pinned') end
  if opt.tiny then return held(pinned:to(DEVICE):to('cpu'):equal(plain), 'copied from both') end
  local _, from_plain = asked(function() plain:to(DEVICE):release() end)
  local returned, from_pinned = asked(function() pinned:to(DEVICE):release() end)
  return held(from_pinned < from_plain and returned < from_pinned / 2,
    '%.0f MB from pinned memory in %.1f ms, asked for in %.2f ms; from other memory %.1f ms',
    4 * n / 2 ^ 20, from_pinned, returned, from_plain)
end)

row('F200', function()
  set { vendor = false, autotune = false, deterministic = true, tf32 = true, streams = 2,
    memory_fraction = 0.5 }
  local in_force = ridge.backend.now()
  local ok = in_force.vendor == false and in_force.autotune == false and in_force.tf32 == true
    and in_force.deterministic == true and in_force[DEVICE .. ' streams'] == 2
    and in_force[DEVICE .. ' memory_limit'] > 0 and ridge.zeros(2).device == DEVICE
  return held(ok, 'seven options are in force, tensors are made on %s', ridge.zeros(2).device)
end)

row('F205', function()
  local counts = {}
  for i, child in ipairs { 'plain', 'timed' } do
    local folder = os.tmpname()
    os.remove(folder)
    os.execute(('mkdir %s; XDG_CACHE_HOME=%s ./ridge %s --child %s%s'):format(folder, folder,
      arg[0], child, opt.tiny and ' --tiny' or ''))
    counts[i] = 0
    local file = io.open(folder .. '/ridge/cublaslt.txt')
    for _ in file and file:lines() or function() end do counts[i] = counts[i] + 1 end
    if file then file:close() end
    os.execute('rm -r ' .. folder)
  end
  return held(counts[1] == 0 and counts[2] == 4,
    'of 3 products %d algorithms are timed and kept, %d without', math.max(0, counts[2] - 1),
    counts[1])
end)

row('F206', function()
  set { deterministic = true }
  local x = ridge.randn(size, 3 * size, GPU)
  local want, n = x:matmul(x:t()):to 'cpu', opt.tiny and 3 or 50
  for i = 1, n do
    if not x:matmul(x:t()):to('cpu'):equal(want) then
      return held(false, 'other bits in run %d', i)
    end
  end
  return held(true, '%d products of one kind have the same bits', n)
end)

row('F207', function()
  local far = {}
  local x = ridge.full(1 + 2 ^ -12, 32, 32, GPU)
  local exact = 32 * (1 + 2 ^ -12) ^ 2
  for i, tf32 in ipairs { false, true } do
    set { tf32 = tf32 }
    far[i] = math.abs(x:matmul(x):to('f64'):to('cpu'):get(1, 1) - exact) / exact
  end
  return held(far[1] < 2 ^ -20 and far[2] > 2 ^ -14,
    'a product is %.1e from the exact one, with it %.1e', far[1], far[2])
end)

row('F208', function()
  set { vendor = false }
  local x = ridge.randn(64, 64, GPU):to 'bf16'
  local found = {}
  for _, o in ipairs(ridge.profile(function()
    x:matmul(x)
    ridge.nn.attention(x:reshape(1, 1, 64, 64), x:reshape(1, 1, 64, 64), x:reshape(1, 1, 64, 64))
  end).operations) do
    if o.path == 'tensor cores' or o.path == 'mma' then found[#found + 1] = o.op end
  end
  return held(#found == 2, 'own kernels on tensor cores: %s', table.concat(found, ', '))
end)

row('F209', function()
  local n = opt.tiny and 1000 or 2 ^ 26
  local from, x = ridge.ones(n, { pinned = true }), ridge.randn(size, size, GPU)
  local into
  local t = ridge.timeline(function()
    into = ridge.device.on_stream(DEVICE, 1, function() return from:to(DEVICE) end)
    for _ = 1, 20 do x:matmul(x):release() end
    ridge.device.wait(DEVICE)
  end)
  local beside = t:overlap(function(s) return s.name == 'copy' and s.stream == 1 end,
    function(s) return s.stream == 0 and s.device == DEVICE end)
  local right = into:to('cpu'):equal(from)
  if opt.tiny then return right and 'not timed' or 'FAILED', 'what was copied beside work' end
  return held(right and beside > 0, 'a copy on stream 1 was %.2f ms beside products on stream 0',
    beside * 1e3)
end)

os.exit(failed == 0 and 0 or 1, true)
