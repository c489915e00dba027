-- SPDX-License-Identifier: MIT
-- Two simulated GPUs in one process: what each has for itself, and what lies between them.
local simulated = dofile 'tests/lua/simulated.lua'
local there = simulated.open()
local ridge = require 'ridge'

local function case(name, f)
  it(name, function()
    if not there then return pending 'no nvcc: the simulated GPU was not built' end
    f(dofile 'tests/lua/counted.lua')
  end)
end

-- A local of the module that a function comes from.
local function local_of(f, name)
  for i = 1, math.huge do
    local found, value = debug.getupvalue(f, i)
    assert(found, 'there is no ' .. name)
    if found == name then return value end
  end
end

describe('two devices', function()
  case('are told with their memory in MB', function()
    local x = ridge.zeros(3 * 2 ^ 18, { device = 'sim:0' }) -- 3 MB
    local s, stats = ridge.memory.system(), ridge.memory.stats 'sim:0'
    assert.is_true(x.bytes == 3 * 2 ^ 20 and s.gpu_allocated_mb >= 3)
    assert.equal(stats.live / 2 ^ 20, s.gpu_allocated_mb)
    assert.equal(stats.live / 2 ^ 20, s.gpu_memory_mb)
    assert.equal(stats.reserved / 2 ^ 20, s.gpu_reserved_mb)
    assert.is_true(s.gpu_free_mb > 0)
  end)

  -- Memory that is dead goes when a GPU is half full: what full is, is its own size. Filling one to
  -- see that would take minutes.
  case('are collected for by the memory that each has', function()
    ridge.ones(1, { device = 'sim:0' })
    ridge.ones(1, { device = 'sim:1' })
    local gpus = local_of(require('ridge.ffi.call').opened, 'gpus')
    assert.equal(2, #gpus)
    for i, gpu in ipairs(gpus) do
      assert.equal(ridge.device.facts('sim:' .. i - 1).memory, gpu.capacity)
    end
  end)

  case('keep the parameters of a module where they are', function()
    local layer = ridge.nn.Linear(3, 2):to 'sim:1'
    for _, device in ipairs { 'cpu', 'sim:0' } do
      local ok, e = pcall(function() layer.weight = ridge.ones(2, 3):to(device) end)
      assert.is_false(ok)
      assert.equal('EDEVICE', e.code)
      assert.matches('weight is on sim:1, and the tensor that was given on ' .. device, e.message)
    end
    layer.weight = ridge.ones(2, 3):to 'sim:1'
    assert.same({ { 3, 3 } }, (layer(ridge.ones(1, 3):to 'sim:1') - layer.bias):to 'cpu':tolist())
  end)

  case('have memory of their own', function()
    local function free(i) return ridge.device.facts('sim:' .. i).free end
    local before = { [0] = free(0), free(1) }
    local x = ridge.empty(2 ^ 24, { device = 'sim:0' }) -- 64 MB, more than anything is kept of
    assert.is_true(before[0] - free(0) >= 2 ^ 26)
    assert.equal(before[1], free(1))
    x:release()
  end)

  case('copy from one pinned block, and the block waits for both', function()
    local from = ridge.randn(1000, { pinned = true })
    local want = from:clone()
    for _ = 1, 2 do
      local one, other = from:to 'sim:0', from:to 'sim:1'
      from:fill_(0) -- not before both have read it
      assert.is_true(one:to('cpu'):equal(want))
      assert.is_true(other:to('cpu'):equal(want))
      from:copy_(want)
    end
    from:copy_(ridge.ones(1000, { device = 'sim:1' }))
    assert.equal(1000, from:sum():item())
  end)

  case('are let into the memory of each other, once', function(counted)
    local x = ridge.randn(64, 8, { device = 'sim:0' })
    local function across() return x:to('sim:1'):to 'sim:0' end
    assert.equal(2, counted.during(across).peers)
    local did, y = counted.during(across)
    assert.equal(0, did.peers)
    assert.is_true(y:to('cpu'):equal(x:to 'cpu'))
  end)

  case('are copied to, from and between in events that say how many bytes', function()
    local x, seen = ridge.zeros(1000), {}
    local p = ridge.profile(function()
      local there_now = x:to 'sim:0'
      there_now:narrow(1, 1, 10):clone():to 'cpu'
      there_now:narrow(1, 1, 70):clone():to 'sim:1'
    end, { lines = false })
    for event in p.copy:each() do
      if event.kind == 'copy' then seen[#seen + 1] = event.bytes end
    end
    assert.same({ 4000, 40, 280 }, seen)
  end)

  -- Work of the two runs in any order that streams and events allow, the last asked for first.
  case('copy what was asked for before, and nothing that is asked for behind', function()
    local ffi = require 'ffi'
    local a = ridge.full(3, 1000, { device = 'sim:0' })
    a:to('sim:1'):to 'cpu' -- nothing is met for the first time below
    ffi.C.setenv('RG_SIM_ORDER', 'rev', 1)
    local x = a * 2
    local y = x:to 'sim:1'
    x:fill_(0) -- not before the other has read it
    ridge.device.wait 'sim:0'
    local got = y:to 'cpu'
    ffi.C.setenv('RG_SIM_ORDER', '', 1)
    assert.is_true(got:equal(ridge.full(6, 1000)))
  end)

  -- Each of the two events of a copy, as it is made, recorded and waited for: no copy goes on where
  -- one of the two would not wait for the other.
  case('copy nothing where an event between them is refused', function()
    local ffi = require 'ffi'
    local x = ridge.full(3, 1000, { device = 'sim:0' })
    x:to('sim:1'):to 'cpu' -- nothing is met for the first time below
    for _, call in ipairs { 'cudaEventCreateWithFlags', 'cudaEventRecord',
      'cudaStreamWaitEvent' } do
      for n = 1, 3 do
        ffi.C.setenv('RG_SIM_REFUSE', call .. ':' .. n, 1)
        local ok, e = pcall(x.to, x, 'sim:1')
        ffi.C.setenv('RG_SIM_REFUSE', '', 1)
        assert.equal(n == 3, ok, call .. ' ' .. n)
        if not ok then assert.equal('EDEVICE', e.code) end
        assert.is_true(x:to('sim:1'):to('cpu'):equal(ridge.full(3, 1000)))
      end
    end
  end)

  case('allow a kernel all shared memory there is, each once', function(counted)
    local function run(device, rows)
      local q = ridge.randn(1, 1, rows, 256, { device = device }):to 'bf16'
      return ridge.nn.attention(q, q, q):to 'cpu'
    end
    for i, device in ipairs { 'sim:0', 'sim:1', 'sim:0', 'sim:1' } do
      local did = counted.during(run, device, 8 + i)
      assert.equal(i <= 2 and 1 or 0, did.limits, device .. ' ' .. i)
    end
    -- rows of several lengths in shared memory, by one kernel
    for i, n in ipairs { 20000, 12000, 24000 } do
      local did = counted.during(function()
        return ridge.randn(2, n, { device = 'sim:0' }):softmax():to 'cpu'
      end)
      assert.equal(i == 1 and 1 or 0, did.limits, n)
    end
  end)

  case('are summed over, wherever each lies', function()
    local a, b = ridge.ones(5, { device = 'sim:0' }), ridge.full(2, 5, { device = 'sim:1' })
    local c = ridge.full(4, 5)
    ridge.all_reduce_ { a, b, c }
    for device, x in pairs { ['sim:0'] = a, ['sim:1'] = b, cpu = c } do
      assert.equal(device, x.device)
      assert.same({ 7, 7, 7, 7, 7 }, x:to('cpu'):tolist())
    end
    ridge.all_reduce_({ b, a }, { mean = true })
    assert.same({ 7, 7, 7, 7, 7 }, a:to('cpu'):tolist())
  end)

  -- A mirror is in the graph of gradients where what it is of is, while one is made.
  case('have mirrors that ask for gradients as what they are of does', function()
    local C, ref = require 'ridge.ffi.lib', require 'ridge.ffi.ref'
    local call, dtype = require 'ridge.ffi.call', require 'ridge.tensor.dtype'
    local function mirror(x)
      call.run('mirror', C.rg_mirror, x._t, dtype.device('sim:0', 'mirror'), ref.slot)
      return ref.wrap(ref.slot[0])
    end
    local leaf = ridge.ones(3):requires_grad_()
    assert.is_true(mirror(leaf).requires_grad)
    assert.is_false(ridge.no_grad(mirror, leaf).requires_grad)
    assert.is_false(mirror(ridge.ones(3)).requires_grad)
    assert.is_false(mirror(ridge.ones(3):to 'i64').requires_grad)
    mirror(leaf):mul(2):sum():backward()
    assert.same({ 2, 2, 2 }, leaf.grad:tolist())
  end)
end)
