-- SPDX-License-Identifier: MIT
-- Data parallel over simulated devices and the CPU: what one device computes, from every part.
local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local ffi = require 'ffi'
local ref = require 'ridge.ffi.ref'
local nn = ridge.nn
local simulated = dofile 'tests/lua/simulated.lua'
local counted = dofile 'tests/lua/counted.lua'

local LISTS = { { 'sim:0', 'sim:1' }, { 'sim:0' }, { 'cpu', 'sim:0' }, { 'sim:1', 'cpu' },
  { 'cpu' }, { 'sim:0', 'sim:1', 'sim:1' } }

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return tostring(e)
end

local function data(rows)
  local g = ridge.generator(3)
  return ridge.randn(rows, 6, { generator = g }),
    ridge.randint(0, 4, rows, { generator = g })
end

local function text(list) return table.concat(list, ' ') end

describe('data parallel', function()
  if not simulated.open() then
    return it('wants simulated devices', function() pending 'no nvcc: they were not built' end)
  end

  local function deep()
    return nn.Sequential(nn.Linear(6, 8, { seed = 1, activation = 'gelu' }),
      nn.SKLinear(8, 8, { num_terms = 1, low_rank = 2, seed = 2, form = 'bits', warn = false }),
      nn.SKLinear(8, 8, { num_terms = 1, low_rank = 2, seed = 5, form = 'seed', warn = false }),
      nn.LayerNorm(8), nn.Residual(nn.Linear(8, 8, { seed = 3 })), nn.Linear(8, 4, { seed = 4 }))
  end

  -- Loss, output and gradients of a pass; the batch begins on the CPU.
  local function pass(net, x, y)
    net:train()
    local out = net(x)
    local loss = nn.cross_entropy(out, y:to(out.device))
    loss:backward()
    local grads = {}
    for _, p in ipairs(net:parameters()) do
      local g = p.trainable and p.tensor.grad
      if g then grads[p.name:gsub('^module%.', '')] = g:to 'cpu' end
    end
    return loss:item(), out:detach():to 'cpu', grads
  end

  it('gives what one device gives, whatever the batch and the devices', function()
    for _, rows in ipairs { 8, 7, 3, 2, 1 } do
      local x, y = data(rows)
      local loss, out, grads = pass(deep(), x, y)
      for _, devices in ipairs(LISTS) do
        local net = nn.DataParallel(deep(), { devices = devices })
        local here, there, found = pass(net, x, y)
        local what = rows .. ' rows on ' .. text(devices)
        assert.near(loss, here, 1e-5, what)
        assert.is_true(there:allclose(out, 1e-4, 1e-5), what)
        for name, g in pairs(grads) do
          assert.is_true(found[name] and found[name]:allclose(g, 1e-4, 1e-5), what .. ' ' .. name)
        end
        for _, p in ipairs(net:parameters()) do assert.equal(devices[1], p.tensor.device) end
        assert.equal(devices[1], net(x).device)
      end
    end
  end)

  it('gives the batch its gradient, wherever it lies', function()
    local x = data(7)
    local function slope(net, device)
      local at = x:detach():to(device):clone():requires_grad_()
      local y = net(at)
      y:square():sum():backward()
      assert.equal(device, at.grad.device)
      return at.grad:to 'cpu'
    end
    local wanted = slope(deep(), 'cpu')
    for _, device in ipairs { 'cpu', 'sim:0', 'sim:1' } do
      assert.is_true(slope(nn.DataParallel(deep(), { devices = LISTS[1] }), device):allclose(wanted,
        1e-3, 1e-5), device)
    end
  end)

  it('trains to the same parameters', function()
    local x, y = data(9)
    local function train(net)
      local optimizer = ridge.optim.AdamW(net, { lr = 0.01 })
      for _ = 1, 10 do
        optimizer:zero_grad()
        pass(net, x, y)
        optimizer:step { scale = optimizer:clip(1) }
      end
      return net
    end
    local one = train(deep()):parameters()
    local two = train(nn.DataParallel(deep(), { devices = LISTS[1] })):parameters()
    for i, p in ipairs(one) do
      assert.is_true(two[i].tensor:to('cpu'):allclose(p.tensor, 1e-3, 1e-5), p.name)
    end
  end)

  it('draws dropout for the parts one after the other, on every device the same', function()
    local x = data(5)
    local net = nn.Sequential(nn.Linear(6, 50, { seed = 1 }), nn.Dropout(0.5),
      nn.Linear(50, 9, { seed = 2, dropout = 0.3 })):train()
    ridge.seed(7)
    local wanted = ridge.concat({ net(x:narrow(1, 1, 2)), net(x:narrow(1, 3, 3)) }, 1)
    net:to 'sim:0'
    ridge.seed(7)
    local found = nn.DataParallel(net, { devices = LISTS[1] })(x)
    assert.is_true(found:to('cpu'):allclose(wanted, 1e-5, 1e-6))
    net:eval()
    assert.is_true(nn.DataParallel(net, { devices = LISTS[1] })(x):allclose(net(x:to 'sim:0'),
      1e-5, 1e-6))
  end)

  it('takes modules as they come: shared parts, own classes, several inputs and results',
    function()
      local Odd = nn.class 'Odd'
      function Odd:init()
        self.inner = self:child('inner', nn.Linear(6, 6, { seed = 1 }))
        self.again = self:child('again', self.inner)
        self.parts = { a = self.inner, list = { self.inner } }
        self:param('scale', ridge.full(0.5, 6))
        self:buffer('shift', ridge.ones(6))
        self.plain = ridge.full(2, 6)
      end
      function Odd:forward(a, b, k)
        local y = self.parts.list[1](self.again(a)) * self.scale + self.shift * k
        return y, { sum = y + self.plain, b = { b * 2 } }, 'word'
      end
      local x = data(5)
      local function run(net)
        net:train()
        local y, more, word = net(x:to(net.devices and 'cpu' or 'cpu'), x * 3, 2)
        y:sum():backward()
        return y:to 'cpu', more.sum:to 'cpu', more.b[1]:to 'cpu', word,
          (net.module or net).inner.weight.grad:to 'cpu', (net.module or net).scale.grad:to 'cpu'
      end
      local wanted = { run(Odd()) }
      local found = { run(nn.DataParallel(Odd(), { devices = { 'cpu', 'sim:0', 'sim:1' } })) }
      for i, x0 in ipairs(wanted) do
        assert.is_true(x0 == found[i] or found[i]:allclose(x0, 1e-4, 1e-5), i)
      end
      assert.equal('word', found[4])
    end)

  it('recomputes, keeps running statistics of the first part, and goes under autocast', function()
    local x, y = data(6)
    local function net(recomputes)
      local m = nn.Sequential(nn.Linear(6, 8, { seed = 1 }), nn.Tanh(), nn.Linear(8, 4,
        { seed = 2 }))
      if recomputes then m:recompute(2) end
      return nn.DataParallel(m, { devices = LISTS[1] })
    end
    local _, _, plain = pass(net(false), x, y)
    local _, _, again = pass(net(true), x, y)
    for name, g in pairs(plain) do assert.is_true(again[name]:allclose(g, 1e-5, 1e-6), name) end
    local norm = nn.BatchNorm(6):train()
    local alone = nn.BatchNorm(6):train()
    nn.DataParallel(norm, { devices = LISTS[1] })(x)
    alone(x:narrow(1, 1, 3))
    assert.is_true(norm.running_mean:to('cpu'):allclose(alone.running_mean, 1e-5, 1e-6))
    assert.equal('bf16', ridge.autocast('bf16', net(false), x).dtype)
  end)

  it('computes two parts again on one device', function()
    local x, y = data(6)
    local function net(devices)
      return nn.DataParallel(deep():recompute(2), { devices = devices })
    end
    local _, _, one = pass(net { 'cpu' }, x, y)
    local _, _, two = pass(net { 'sim:0', 'sim:1', 'sim:1' }, x, y)
    for name, g in pairs(one) do assert.is_true(two[name]:allclose(g, 1e-4, 1e-5), name) end
  end)

  -- -- When gradients come back -------------------------------------------------------------------

  -- What a pass tells: parameters whose gradient is complete, and places between the layers.
  local function told(devices, opts)
    local log, handles = {}, {}
    local Mark = nn.class 'Mark'
    function Mark:init(name) self.name = name end
    function Mark:forward(x)
      return ridge.hook(x, function(g) log[#log + 1] = self.name .. ' ' .. g.device end)
    end
    local m = nn.Sequential(nn.Linear(6, 5, { seed = 1 }), Mark 'first', nn.Linear(5, 5,
      { seed = 2 }), Mark 'second', nn.Linear(5, 4, { seed = 3 }))
    local net = nn.DataParallel(m, { devices = devices })
    for _, p in ipairs(net:parameters()) do
      handles[#handles + 1] = p.tensor:on_gradient(function(t)
        log[#log + 1] = p.name:gsub('module%.', '')
        log[p.name] = t.grad:tolist()
      end)
    end
    local x = data(6)
    if opts == 'again' then m:recompute(3) end
    net(x):square():sum():backward()
    for _, p in ipairs(net:parameters()) do
      assert.same(log[p.name], p.tensor.grad:tolist())
    end
    for _, handle in ipairs(handles) do handle:remove() end
    return text(log)
  end

  it('adds up the gradients of a layer while those before it are still to pass', function()
    assert.equal('second sim:1 first sim:1 5.bias 5.weight second sim:0 3.bias 3.weight '
      .. 'first sim:0 1.bias 1.weight', told { 'sim:0', 'sim:1' })
    assert.equal('second sim:1 first sim:1 second sim:0 first sim:0 5.bias 5.weight second cpu '
      .. '3.bias 3.weight first cpu 1.bias 1.weight', told { 'cpu', 'sim:0', 'sim:1' })
  end)

  it('waits with that for parts that are computed again', function()
    local log = told({ 'sim:0', 'sim:1' }, 'again')
    local behind = assert(log:match '.*first sim:0(.*)')
    for _, name in ipairs { '1.weight', '3.weight', '5.weight', '1.bias', '3.bias', '5.bias' } do
      assert.truthy(behind:find(name, 1, true), name)
      assert.equal(1, select(2, log:gsub(name, '')))
    end
  end)

  it('adds them in the order of a pass without devices', function()
    -- 2^24 + 1 + 1 and 1 + 1 + 2^24 differ in f32: home first, then the last part, the second
    local w = ridge.zeros(1):requires_grad_()
    local function slope(home, one, two)
      local at_one, at_two = w:to 'sim:0', w:to 'sim:1'
      local y = w * home
      y = y + (at_one * one):to 'cpu'
      y = y + (at_two * two):to 'cpu'
      w:zero_grad()
      y:sum():backward()
      return w.grad:item()
    end
    assert.equal(2 ^ 24, slope(2 ^ 24, 1, 1))
    assert.equal(2 ^ 24, slope(1, 1, 2 ^ 24))
    assert.equal(2 ^ 24 + 2, slope(1, 2 ^ 24, 1))
    -- a part that is computed again adds to .grad itself: 2^24 + 1, then + 1, not 2^24 + (1 + 1)
    w:zero_grad();
    (w * 2 ^ 24):sum():backward()
    local at_one = w:to 'sim:0'
    local y = ridge.recompute(function() return w * 1 end, ridge.zeros(1));
    (y + (at_one * 1):to 'cpu'):sum():backward()
    assert.equal(2 ^ 24, w.grad:item())
  end)

  it('releases everything it made on the other devices', function()
    local x, y = data(6)
    local net = nn.DataParallel(deep(), { devices = LISTS[1] })
    pass(net, x, y)
    local function live()
      for _ = 1, 4 do ridge.memory.trim 'sim:1' end
      return ridge.memory.stats('sim:1').live
    end
    local before = live()
    -- a compiled trace keeps what an earlier test had as an upvalue, and the calls behind it
    local calls = ridge.grad_stats().calls
    collectgarbage 'stop'
    for _ = 1, 5 do
      ridge.scope(function() nn.cross_entropy(net(x), y:to 'sim:0'):backward() end)
      -- without the collector: what is left are no weights, of which a replica has 1,200 bytes
      assert.equal(before, ridge.memory.stats('sim:1').live)
    end
    collectgarbage 'restart'
    for _ = 1, 5 do pass(net, x, y) end
    assert.equal(before, live())
    assert.equal(calls, ridge.grad_stats().calls)
  end)

  -- -- Copies of the weights ----------------------------------------------------------------------

  it('copies to the other devices what has changed, and nothing else', function()
    local net = nn.DataParallel(deep(), { devices = LISTS[1] }):eval()
    local o = ridge.optim.SGD(net, { lr = 0.1 })
    local x, y = data(6)
    x, y = x:to 'sim:0', y:to 'sim:0'
    local function there()
      return counted.during(function() ridge.no_grad(function() net(x) end) end).moves
    end
    local all, trainable = 0, 0
    for _, p in ipairs(net:parameters()) do
      all = all + 1
      trainable = trainable + (p.trainable and 1 or 0)
    end
    assert.is_true(trainable < all)
    local PART, RESULT = 1, 1
    assert.equal(PART + RESULT + all, there())
    for _ = 1, 3 do assert.equal(PART + RESULT, there()) end
    ridge.no_grad(function() net.module.children[1].module.weight:mul_(2) end)
    assert.equal(PART + RESULT + 1, there())
    assert.equal(PART + RESULT, there())
    net:train()
    local function step()
      o:zero_grad()
      for _ = 1, 2 do nn.cross_entropy(net(x), y):backward() end -- two parts of one step
      o:step()
    end
    step()
    local did = counted.during(step).moves
    -- each backward pass brings the gradients and the part's slope of the result
    assert.equal(trainable + 2 * (PART + RESULT + trainable + RESULT), did)
  end)

  it('gives what it gave when every pass copied everything', function()
    local x, y = data(9)
    local function train(net)
      local o = ridge.optim.AdamW(net, { lr = 0.01 })
      local losses = {}
      for i = 1, 6 do
        o:zero_grad()
        local first = nn.cross_entropy(net(x), y:to(net.devices and 'sim:0' or 'cpu'))
        local second = net(x * 0.5):square():mean() -- of one graph with the first
        local loss = first + second
        loss:backward()
        o:step { scale = o:clip(1) }
        losses[i] = loss:item()
        if i == 3 then net:parameters()[1].tensor:detach():mul_(0.9) end
      end
      return losses, net:parameters()
    end
    local losses, one = train(deep():train())
    local found, two = train(nn.DataParallel(deep(), { devices = LISTS[6] }):train())
    for i, loss in ipairs(losses) do assert.near(loss, found[i], 1e-4, i) end
    for i, p in ipairs(one) do
      assert.is_true(two[i].tensor:to('cpu'):allclose(p.tensor, 1e-3, 1e-5), p.name)
    end
  end)

  it('takes no copy that a part has written to for the parameter', function()
    local seen = {}
    local Odd = nn.class 'Odd'
    function Odd:init()
      self:param('w', ridge.ones(3))
      self:buffer('n', ridge.zeros(3))
    end
    function Odd:forward(x)
      if x.device == 'sim:1' then
        ridge.no_grad(function() self.n:add_(1) end)
        seen[#seen + 1] = self.n:get(1)
      end
      return x * self.w
    end
    local net = nn.DataParallel(Odd(), { devices = LISTS[1] })
    for _ = 1, 3 do net(ridge.ones(4, 3)) end
    assert.same({ 1, 1, 1 }, seen)
    assert.same({ 0, 0, 0 }, net.module.n:tolist())
  end)

  it('has copies that any stream reads behind whoever made them', function()
    local function on(stream, f) return ridge.device.on_stream('sim:1', stream, f) end
    local before = os.getenv 'RG_SIM_ORDER'
    local w = ridge.zeros(50, 40, { device = 'sim:0' })
    for _, order in ipairs { 'rev', 'rand:1', 'rand:2', 'rand:3' } do
      ffi.C.setenv('RG_SIM_ORDER', order, 1)
      for i = 1, 8 do
        w:fill_(i)
        local results = {}
        for k = 1, 4 do
          results[k] = on((i + k) % 4, function()
            assert.equal(0, C.rg_mirror(w._t, 2, ref.slot))
            local y = ref.wrap(ref.slot[0])
            local z = y * 2
            y:release()
            return z
          end)
        end
        for k, z in ipairs(results) do
          assert.equal(2 * i * 2000, z:sum():item(), ('%s %d %d'):format(order, i, k))
        end
      end
    end
    ffi.C.setenv('RG_SIM_ORDER', before or 'fwd', 1)
  end)

  it('keeps the copies with the parameters, and lets them go with them', function()
    local function live()
      for _ = 1, 4 do ridge.memory.trim 'sim:1' end
      return (ridge.memory.stats('sim:1').tags['of a layer'] or { live = 0 }).live
    end
    local net = ridge.memory.tag('of a layer', function()
      return nn.DataParallel(nn.Linear(64, 32, { seed = 1 }), { devices = LISTS[1] })
    end)
    local x = ridge.ones(4, 64)
    for i = 1, 4 do
      ridge.no_grad(ridge.scope, function() net(x) end)
      if i < 4 then ridge.no_grad(function() net.module.weight:mul_(2) end) end
    end
    assert.equal(4 * (64 * 32 + 32), live())
    local w = ridge.memory.tag('of a layer', ridge.ones, 100, { device = 'sim:0' })
    local first
    for i = 1, 3 do
      assert.equal(0, C.rg_mirror(w._t, 2, ref.slot))
      local y = ref.wrap(ref.slot[0])
      assert.equal(i, y:get(1))
      first = first or y
      w:add_(1)
    end
    w:release()
    for _ = 1, 4 do ridge.memory.trim 'sim:1' end
    assert.equal(1, first:get(1)) -- who has one keeps it, as it was
    first:release()
    assert.equal(4 * (64 * 32 + 32), live())
  end)

  it('gives each device its part, before any of them computes', function()
    local order = {}
    local Spy = nn.class 'Spy'
    function Spy:init() self:param('w', ridge.ones(1)) end
    function Spy:forward(x)
      order[#order + 1] = ('%s %d %s'):format(x.device, x:size(1), self.w.device)
      return x * self.w
    end
    nn.DataParallel(Spy(), { devices = { 'sim:0', 'sim:1', 'cpu' } })(ridge.ones(8, 2))
    assert.same({ 'sim:0 2 sim:0', 'sim:1 3 sim:1', 'cpu 3 cpu' }, order)
  end)

  it('says what is wrong', function()
    local net = nn.Linear(3, 2)
    assert.matches('a module is expected', failure(nn.DataParallel, 3, { devices = { 'cpu' } }))
    assert.matches('option devices is missing', failure(nn.DataParallel, net, {}))
    assert.matches('is empty', failure(nn.DataParallel, net, { devices = {} }))
    assert.matches('there is no device', failure(nn.DataParallel, net, { devices = { 'tpu' } }))
    assert.matches('there is no device sim:7', failure(nn.DataParallel, net,
      { devices = { 'sim:7' } }))
    local two = nn.DataParallel(net, { devices = LISTS[1] })
    assert.matches('no tensor was given', failure(two, 3))
    assert.matches('argument 2 is f32%[3%]', failure(two, ridge.ones(4, 3), ridge.ones(3)))
    assert.matches('the first of its devices', failure(two.to, two, 'sim:1'))
    local Sum = nn.class 'Sum'
    function Sum:init() self:param('w', ridge.ones(3)) end
    function Sum:forward(x) return (x * self.w):sum() end
    assert.matches('result 1 is f32%[%], which has no axis 1', failure(nn.DataParallel(Sum(),
      { devices = LISTS[1] }), ridge.ones(4, 3)))
    assert.matches('a plan stays on one device', failure(ridge.capture, two, ridge.ones(4, 3,
      { device = 'sim:0' })))
    C.rg_capture_cancel()
  end)
end)
