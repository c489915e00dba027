-- SPDX-License-Identifier: MIT
-- Collectives: what replicas in one process do together, on one device and on several, eager, in
-- graphs and in plans.
local simulated = dofile 'tests/lua/simulated.lua'
local there = simulated.open()
local ridge = require 'ridge'
local bits = dofile 'tests/lua/bits.lua'
local nn = ridge.nn

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function on_devices(name, f)
  it(name, function()
    if not there then return pending 'no nvcc: simulated devices were not built' end
    f()
  end)
end

-- Replicas with other numbers in each.
local function replicas(devices, dtype, shape)
  local list, g = {}, ridge.generator(7)
  for i, device in ipairs(devices) do
    list[i] = ridge.randn(shape, { generator = g }):to(dtype):to(device)
  end
  return list
end

-- What every replica is to be: sums in the order of the list, on the CPU.
local function sum_of(list, mean)
  local sum
  for _, x in ipairs(list) do
    local wide = x:to('cpu'):to(x.dtype == 'f64' and 'f64' or 'f32')
    sum = sum and sum + wide or wide:clone()
  end
  return bits.of((mean and sum / #list or sum):to(list[1].dtype))
end

describe('all_reduce_', function()
  it('gives every tensor the same bits, added up in the order of the list', function()
    local big, one, other = ridge.full(2 ^ 24, 3), ridge.ones(3), ridge.ones(3)
    ridge.all_reduce_ { big, one, other }
    for _, x in ipairs { big, one, other } do assert.equal(3 * 2 ^ 24, x:sum():item()) end
    big:fill_(2 ^ 24)
    one:fill_(1)
    other:fill_(1)
    ridge.all_reduce_ { one, other, big }
    assert.equal(2 ^ 24 + 2, big:get(1))
  end)

  it('takes strides, halves and means', function()
    for _, dtype in ipairs { 'f32', 'f64', 'bf16', 'f16' } do
      for _, mean in ipairs { false, true } do
        local list = replicas({ 'cpu', 'cpu', 'cpu' }, dtype, { 37, 41 })
        local turned = list[2]:t():contiguous():t()
        list[2] = turned
        local want = sum_of(list, mean)
        assert.equal(list, ridge.all_reduce_(list, { mean = mean }))
        for _, x in ipairs(list) do assert.equal(want, bits.of(x), dtype) end
        assert.is_false(turned.is_contiguous)
      end
    end
  end)

  it('raises versions, and no gradient flows through it', function()
    local x, y = ridge.ones(2):requires_grad_(), ridge.ones(2)
    local z = (x * x):sum()
    local before = y.version
    ridge.all_reduce_ { x, y }
    assert.equal(before + 1, y.version)
    assert.matches('was written to since', message(function() z:backward() end))
    assert.is_false(y.requires_grad)
  end)

  it('says what is wrong', function()
    local x = ridge.ones(2)
    local function refused(text, ...)
      local why = message(ridge.all_reduce_, ...)
      assert.matches(text, why)
      assert.matches('all_reduce_', why)
    end
    refused('a list of tensors is expected, got 3', 3)
    refused('0 tensors; 1 to 16', {})
    local many = {}
    for i = 1, 17 do many[i] = ridge.ones(1) end
    refused('17 tensors; 1 to 16', many)
    refused('f32%[2%] and f32%[3%], wanted one shape', { x, ridge.ones(3) })
    refused('wanted one type', { x, ridge.ones(2, { dtype = 'f64' }) })
    refused('tensors 1 and 2 share memory', { x, x })
    refused('tensors 1 and 3 share memory', { x, ridge.ones(2), x:narrow(1, 1, 2) })
    refused('repeats its elements', { x, ridge.ones(1):expand(2) })
    refused("unknown option 'sum'; known: mean", { x }, { sum = true })
    refused('tensor 2: a tensor is expected', { x, 3 })
    ridge.all_reduce_ { ridge.ones(2), ridge.ones(2), ridge.ones(2) }
    refused('tensor 1: a tensor is expected, got nil', { nil, x, x }) -- not what was there before
    refused('tensor 2: a tensor is expected, got nil', { x, nil, x })
    assert.same({ 1, 1 }, x:tolist())
    many[17] = nil
    ridge.all_reduce_(many)
    assert.equal(16, many[16]:item())
  end)

  -- -- On several devices -------------------------------------------------------------------------

  on_devices('is one call on the device of the first, and copies there and back', function()
    for _, devices in ipairs { { 'sim:0', 'sim:1' }, { 'cpu', 'sim:0', 'sim:1' },
      { 'sim:1', 'cpu', 'sim:1' }, { 'sim:0', 'sim:0', 'sim:0' } } do
      for _, dtype in ipairs { 'f32', 'bf16', 'f64' } do
        local list = replicas(devices, dtype, { 13, 5 })
        list[2] = list[2]:t():contiguous():t()
        local want = sum_of(list, true)
        ridge.all_reduce_(list, { mean = true })
        for i, x in ipairs(list) do
          assert.equal(devices[i], x.device)
          assert.equal(want, bits.of(x), table.concat(devices, ' ') .. ' ' .. dtype)
        end
      end
    end
    local list = replicas({ 'sim:0', 'sim:1' }, 'f32', { 8, 4 })
    for _, x in ipairs(list) do x:requires_grad_() end -- weights may be reduced, too
    local spans = {}
    for _, s in ipairs(ridge.timeline(ridge.all_reduce_, list).spans) do
      spans[#spans + 1] = ('%s %s'):format(s.name, s.device)
    end
    assert.equal('copy sim:0, all_reduce sim:0, copy sim:1', table.concat(spans, ', '))
  end)

  on_devices('is refused in a capture over several devices, which changes nothing', function()
    local list = replicas({ 'sim:0', 'sim:1' }, 'f32', { 3 })
    local before = bits.all(list)
    assert.matches('a plan stays on one device', message(ridge.capture, function()
      ridge.all_reduce_(list)
    end))
    assert.same(before, bits.all(list))
  end)

  -- -- In graphs and plans ------------------------------------------------------------------------

  local function in_plans(device)
    local a, b = unpack(replicas({ device, device }, 'f32', { 4, 6 }))
    local function f()
      local p, q = a * 2, b + a
      ridge.all_reduce_({ p, q }, { mean = true })
      ridge.all_reduce_ { a, b }
      ridge.all_reduce_ { a, b } -- the same call, and another one
      return p - q:exp(), a:sum()
    end
    local graph = ridge.graph(f)
    local text = tostring(graph)
    assert.equal(3, select(2, text:gsub('= all_reduce%(', '')))
    assert.equal(3, select(2, text:gsub('; writes', '')))
    assert.equal(1, select(2, text:gsub('{mean=true}', '')))
    graph:check()
    local start = { a:clone(), b:clone() }
    local function again(run)
      local out = {}
      a:copy_(start[1])
      b:copy_(start[2])
      for i = 1, 3 do out[i] = bits.all(run(), a, b) end
      return out
    end
    local eager = again(function() return { f() } end)
    local all = {}
    for _, pass in ipairs(ridge.graph.passes()) do
      if pass.exactness == 'exact' and pass.does then all[#all + 1] = pass.name end
    end
    for _, g in ipairs { graph, graph:optimize(all) } do
      g:check()
      local plan = g:plan()
      assert.equal(3, select(2, table.concat(plan:facts().steps, ' '):gsub('all_reduce', '')))
      assert.same(eager, again(function() return { plan:run() } end))
      assert.same(eager, again(function() return { plan:run() } end))
    end
    local plan = graph:plan()
    assert.matches('one that writes to what is outside', message(function() plan:clone() end))
  end

  it('is a node that writes and a step, which no pass takes away or joins', function()
    in_plans 'cpu'
  end)

  on_devices('is the same on a GPU', function() in_plans 'sim:0' end)

  it('is taken away where nobody reads what it writes', function()
    local x = ridge.ones(3)
    local g = ridge.graph(function()
      local p, q = x * 2, x * 3
      ridge.all_reduce_ { p, q }
      return x + 1
    end)
    local plan = g:optimize({ 'dead_code_elimination' }):plan()
    assert.same({ 'add' }, plan:facts().steps)
  end)

  it('counts its bytes and its time in a profile', function()
    local list = replicas({ 'cpu', 'cpu', 'cpu' }, 'f32', { 100, 100 })
    local found
    for _, row in ipairs(ridge.profile(ridge.all_reduce_, list).operations) do
      if row.op == 'all_reduce' then found = row end
    end
    assert.equal(1, found.calls)
    assert.equal(2 * 3 * 40000, found.bytes)
    assert.equal(2 * 10000, found.flops)
    assert.is_true(found.ns > 0)
  end)

  -- -- In the backward pass -----------------------------------------------------------------------

  -- Replicas that each compute a part of the batch, and reduce the gradient of a parameter as soon
  -- as the last of them has it.
  local function train(devices)
    local nets, log, handles = {}, {}, {}
    for i, device in ipairs(devices) do
      nets[i] = nn.Sequential(nn.Linear(6, 8, { seed = 1 }), nn.Tanh(), nn.Linear(8, 2,
        { seed = 2 })):to(device)
    end
    local params, left = {}, {}
    for i, net in ipairs(nets) do
      params[i] = net:parameters()
      for k, p in ipairs(params[i]) do
        handles[#handles + 1] = p.tensor:on_gradient(function()
          left[k] = (left[k] or #nets) - 1
          if left[k] > 0 then return end
          left[k] = nil
          local grads = {}
          for j in ipairs(nets) do grads[j] = params[j][k].tensor.grad end
          ridge.all_reduce_(grads, { mean = true })
          log[#log + 1] = p.name
        end)
      end
    end
    local optimizers = {}
    for i, net in ipairs(nets) do optimizers[i] = ridge.optim.SGD(net, { lr = 0.1 }) end
    local x = ridge.randn(4 * 3, 6, { generator = ridge.generator(3) })
    for _ = 1, 3 do
      for i, net in ipairs(nets) do
        optimizers[i]:zero_grad()
        local rows = 12 / #nets
        local part = x:narrow(1, (i - 1) * rows + 1, rows):to(devices[i])
        local y = net.children[1].module(part)
        y = ridge.hook(y, function() log[#log + 1] = 'layer' end)
        net.children[3].module(y:tanh()):square():mean():backward()
      end
      for i in ipairs(nets) do optimizers[i]:step() end
    end
    for _, handle in ipairs(handles) do handle:remove() end
    local out = {}
    for i in ipairs(nets) do
      out[i] = {}
      for k, p in ipairs(params[i]) do out[i][k] = p.tensor:detach():to 'cpu' end
    end
    return out, table.concat(log, ' ')
  end

  local function same_as_one(devices)
    local one = train { 'cpu' }
    local several, log = train(devices)
    for k, x in ipairs(one[1]) do
      assert.is_true(several[1][k]:allclose(x, 1e-4, 1e-5), k)
      for i = 2, #devices do assert.equal(bits.of(several[1][k]), bits.of(several[i][k])) end
    end
    -- a layer is reduced before the layer before it has passed in the last replica
    local step = ('layer '):rep(#devices - 1) .. '3.bias 3.weight layer 1.bias 1.weight'
    local want = { step, step, step }
    assert.equal(table.concat(want, ' '), (log:gsub('3.weight 3.bias', '3.bias 3.weight')
      :gsub('1.weight 1.bias', '1.bias 1.weight')))
  end

  it('reduces gradients of replicas while the pass goes on', function()
    same_as_one { 'cpu', 'cpu' }
    same_as_one { 'cpu', 'cpu', 'cpu' }
  end)

  on_devices('does so over devices', function() same_as_one { 'sim:0', 'sim:1', 'cpu' } end)
end)
