-- SPDX-License-Identifier: MIT
-- Parameters that are assigned, tied, replaced and computed from others.
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local folders = dofile 'tests/lua/store/folder.lua'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e
end

local function numbers(seed, ...)
  local sizes = { ... }
  sizes[#sizes + 1] = { generator = ridge.generator(seed) }
  return ridge.randn(unpack(sizes))
end

describe('module.weight = t', function()
  it('is computed with, saved, trained, moved and copied', function()
    local x = numbers(1, 4, 6)
    for name, layer in pairs { linear = nn.Linear(6, 5, { seed = 1 }),
      fused = nn.Linear(6, 5, { seed = 1, activation = 'relu' }) } do
      local t = numbers(2, 5, 6)
      layer.weight = t
      local y = x:matmul(t:t()) + layer.bias
      assert.is_true(layer(x):allclose(name == 'fused' and y:relu() or y, 1e-5, 1e-5))
      assert.is_true(layer.weight == t)
      assert.is_true(layer:state().weight:equal(t))
      assert.is_true(t.requires_grad)
      assert.is_true(layer:effective_weight():equal(t))
      local optimizer = optim.SGD(layer, { lr = 1 })
      layer(x):sum():backward()
      local before = t:clone()
      optimizer:step()
      assert.is_false(before:equal(layer.weight))
      assert.is_true(layer:clone().weight:equal(layer.weight))
      assert.equal('f64', layer:to('f64').weight.dtype)
      assert.equal('f64', layer(x:to 'f64').dtype)
    end
  end)

  it('is of every layer, each parameter and buffer', function()
    local x, image = numbers(1, 4, 6), numbers(1, 2, 4, 5, 5)
    local batch = nn.BatchNorm(6)
    for name, case in pairs {
      lowrank = { nn.LowRankLinear(6, 5, { rank = 2 }), x },
      stored = { nn.SKLinear(6, 5, { num_terms = 2, low_rank = 3, warn = false }), x },
      bits = { nn.SKLinear(6, 5, { low_rank = 3, form = 'bits', warn = false }), x },
      seed = { nn.SKLinear(6, 5, { low_rank = 3, form = 'seed', warn = false }), x },
      conv = { nn.Conv2d(4, 3, 3), image }, norm = { nn.LayerNorm(6), x },
      rms = { nn.RMSNorm(6), x }, group = { nn.GroupNorm(2, 4), image }, batch = { batch, x },
      embedding = { nn.Embedding(5, 3), ridge.tensor({ 0, 4 }, { dtype = 'i64' }) },
      sketched = { nn.SKConv2d(4, 3, 3, { num_terms = 1, low_rank = 2, warn = false }), image },
    } do
      local layer, input = unpack(case)
      layer:eval()
      for _, p in ipairs(layer:parameters()) do
        local before = layer(input)
        local t = p.tensor.dtype == 'u8' and (255 - p.tensor:to 'i64'):to 'u8'
          or p.tensor.dtype == 'i64' and p.tensor + 77 or p.tensor:detach() * 1.5 + 0.25
        layer[p.name] = t
        local what = name .. '.' .. p.name
        assert.is_true(layer[p.name] == t, what)
        assert.is_true(layer:state()[p.name]:equal(t), what)
        assert.is_false(layer(input):equal(before), what)
        local again = layer:clone():eval()
        assert.is_true(again(input):equal(layer(input)), what)
      end
    end
    local wanted = (x - batch.running_mean) / (batch.running_var + 1e-5):sqrt() * batch.weight
      + batch.bias
    assert.is_true(batch(x):allclose(wanted, 1e-4, 1e-4))
  end)

  it('of a sketch is as before where the numbers are, with gradients', function()
    for _, form in ipairs { 'stored', 'bits', 'seed' } do
      local opts = { num_terms = 2, low_rank = 3, seed = 3, form = form, warn = false }
      local one, two = nn.SKLinear(6, 5, opts), nn.SKLinear(6, 5, opts)
      local x = numbers(1, 4, 6)
      for _, name in ipairs { 'S1s', 'S2s' } do two[name] = one[name]:detach():clone() end
      assert.is_true(one(x):allclose(two(x), 1e-6, 1e-6))
      assert.is_true(one:effective_weight():allclose(two:effective_weight(), 1e-6, 1e-6))
      one(x):square():sum():backward()
      two(x):square():sum():backward()
      for _, name in ipairs { 'S1s', 'S2s', 'bias' } do
        assert.is_true(one[name].grad:allclose(two[name].grad, 1e-5, 1e-5), form .. name)
      end
      two:to 'f64'
      assert.equal('f64', two(x:to 'f64').dtype)
      local dense, shared = nn.SKLinear(6, 5, opts), two
      dense:to 'f64'
      dense.S1s = shared.S1s
      assert.is_true(dense.S1s == shared.S1s)
    end
  end)

  it('computed from others that require a gradient is a parameter of its own', function()
    local layer = nn.Linear(6, 5, { seed = 1 })
    local half = layer.weight * 0.5
    assert.is_true(half.requires_grad)
    layer.weight = half
    assert.is_true(layer.weight:equal(half))
    layer(numbers(1, 2, 6)):sum():backward()
    assert.truthy(layer.weight.grad)
    optim.SGD(layer, { lr = 0.1 }):step()
    assert.is_false(layer.weight:equal(half))
  end)

  it('says what does not fit, at the line that assigned it', function()
    local layer = nn.Linear(6, 5, { seed = 1 })
    local weight = layer.weight
    local function assign(name, value) return failure(function() layer[name] = value end) end
    assert.equal('nn.Linear: weight is f32[5,6], and f32[6,5] was given',
      assign('weight', ridge.ones(6, 5)).message)
    assert.equal('ESHAPE', assign('weight', ridge.ones(6, 5)).code)
    assert.equal('EDTYPE', assign('weight', ridge.ones(5, 6):to 'f64').code)
    assert.matches('a tensor is expected, got 3', assign('weight', 3).message)
    assert.matches('a tensor is expected, got nil', assign('weight', nil).message)
    local gone = ridge.ones(5, 6)
    gone:release()
    assert.equal('ERELEASED', assign('weight', gone).code)
    assert.matches('parameter_spec', tostring(assign('weight', 3)))
    assert.is_true(layer.weight == weight)
    for made, name in pairs {
      [nn.Linear(6, 5, { bias = false })] = 'bias',
      [nn.BatchNorm(6, { affine = false })] = 'weight',
      [nn.LayerNorm(6, { bias = false })] = 'bias', [nn.RMSNorm(6, { affine = false })] = 'weight',
      [nn.GroupNorm(2, 6, { affine = false })] = 'bias',
      [nn.Conv2d(2, 3, 3, { bias = false })] = 'bias',
      [nn.SKConv2d(2, 3, 3, { bias = false, warn = false })] = 'bias',
      [nn.SKLinear(6, 5, { bias = false, warn = false })] = 'bias',
      [nn.LowRankLinear(6, 5, { rank = 1, bias = false })] = 'bias' } do
      local e = failure(function() made[name] = ridge.ones(5) end)
      assert.matches('it was made without ' .. name, e.message)
      assert.is_nil(made[name])
      made[name] = nil -- what is not there may be taken away
    end
  end)

  it('of a module of one\'s own, whose plain fields stay plain', function()
    local Scale = nn.class 'Scale'
    function Scale:init(n)
      self.by = ridge.ones(n)
      self:param('by', self.by)
      self.note = 1
      self.tensors, self.parts, self.wrapped = { 1 }, { self.by }, true -- names are the user's
    end
    function Scale:forward(x) return x * self.by end
    local scale = Scale(3)
    scale.by = ridge.full(2, { 3 })
    scale.note, scale.tensor = 2, ridge.ones(1)
    assert.same({ 2, 2, 2 }, scale(ridge.ones(3)):tolist())
    assert.equal(2, scale.note)
    assert.equal(1, #scale:parameters())
    local copy = scale:clone()
    assert.same({ 2, 2, 2 }, copy(ridge.ones(3)):tolist())
    assert.is_true(#copy.parts == 1 and copy.tensors[1] == 1 and copy.wrapped)
  end)
end)

describe('head.weight = embedding.weight', function()
  local function tied()
    local net = nn.Sequential(nn.Embedding(7, 4, { seed = 1 }),
      nn.Linear(4, 7, { seed = 2, bias = false }))
    net[2].weight = net[1].weight
    return net
  end

  local ids = ridge.tensor({ 0, 3, 6 }, { dtype = 'i64' })

  local function is_tied(net)
    assert.is_true(net[1].weight == net[2].weight)
    assert.equal(28, (net:num_parameters()))
    assert.equal(28 * (net[1].weight.dtype == 'f64' and 8 or 4), net:num_bytes())
    assert.equal(1, #net:parameters())
    local own = net[1].weight:detach()
    local rows = ridge.concat({ own:narrow(1, 1, 1), own:narrow(1, 4, 1), own:narrow(1, 7, 1) }, 1)
    assert.is_true(net(ids):detach():allclose(rows:matmul(own:t()), 1e-5, 1e-5))
  end

  it('counts once, and stays so in copies of other types', function()
    local net = tied()
    is_tied(net)
    is_tied(net:clone())
    assert.is_false(net:clone()[1].weight == net[1].weight)
    is_tied(net:to 'f64')
  end)

  it('is saved once, and loaded into both', function()
    local path = os.tmpname()
    local net, other = tied(), tied()
    ridge.no_grad(function() other[1].weight:mul_(3) end)
    assert.is_false(net[1].weight:equal(other[1].weight))
    ridge.save(path, net:state())
    local held = ridge.load(path)
    other:load_state(held)
    os.remove(path)
    is_tied(other)
    assert.is_true(net[2].weight:equal(other[2].weight))
  end)

  it('is stepped once, with the gradients of both', function()
    local net, apart = tied(), tied()
    apart[2].weight = apart[1].weight:detach():clone()
    for _, each in ipairs { net, apart } do each(ids):square():sum():backward() end
    local sum = apart[1].weight.grad + apart[2].weight.grad
    assert.is_true(net[1].weight.grad:allclose(sum, 1e-5, 1e-5))
    local before = net[1].weight:detach():clone()
    optim.SGD(net, { lr = 0.1 }):step()
    is_tied(net)
    assert.is_true(net[2].weight:detach():allclose(before - sum * 0.1, 1e-5, 1e-5))
    local listed = optim.SGD(net:parameters(), { lr = 0.1 })
    assert.equal(1, #listed.groups[1].params)
  end)

  it('goes through a checkpoint of the trainer', function()
    local folder = folders.new()
    local function made()
      local net = tied()
      return net, ridge.Trainer(net, { optimizer = optim.Adam(net, { lr = 0.1 }),
        folder = folder, say = function() end })
    end
    local labels = ridge.tensor({ 1, 2, 3 }, { dtype = 'i64' })
    local loader = ridge.data.Loader({ ids, labels }, { batch = 3, seed = 1 })
    local net, trainer = made()
    trainer:fit(loader, { epochs = 2 })
    trainer:save 'last'
    local other, again = made()
    assert.is_true(again:resume(loader))
    is_tied(other)
    assert.is_true(other[1].weight:equal(net[1].weight))
    again:fit(loader, { epochs = 3 })
    is_tied(other)
    assert.is_false(other[1].weight:equal(net[1].weight))
    folders.remove(folder)
  end)

  it('holds in data parallel', function()
    local net = tied()
    local both = nn.DataParallel(net, { devices = { 'cpu', 'cpu' } })
    local wanted = tied()
    wanted(ids):square():sum():backward()
    both(ids):square():sum():backward()
    is_tied(net)
    assert.is_true(net[1].weight.grad:allclose(wanted[1].weight.grad, 1e-5, 1e-5))
    assert.equal(1, #both:parameters())
  end)
end)

describe('clone', function()
  it('is deep, in the same mode, with gradients of its own', function()
    local net = nn.Sequential(nn.MultiHeadAttention(4, { heads = 2, mask = ridge.ones(1, 1)
      :to 'bool' }), nn.LSTM(4, 3), nn.Dropout(0.3))
    net[1]:recompute()
    net[3]:eval()
    net[2]:freeze()
    local x = numbers(1, 2, 5, 4)
    local copy = net:clone()
    assert.is_true(copy.training and not copy[3].training)
    assert.is_true(copy[1](x):equal(net[1](x)))
    assert.is_true((copy[2](x)):equal((net[2](x))))
    assert.is_true(copy[2].cells[1].input == copy[2].children[1].module)
    copy[1](x):sum():backward()
    assert.is_nil(net[1].qkv.weight.grad)
    assert.truthy(copy[1].qkv.weight.grad)
    for i, p in ipairs(net:parameters()) do
      local q = copy:parameters()[i]
      assert.equal(p.name, q.name)
      assert.equal(p.trainable, q.trainable)
      assert.is_true(p.tensor:equal(q.tensor))
      assert.is_false(p.tensor == q.tensor)
    end
    local scoped = ridge.scope(function() return nn.Linear(3, 2):clone() end)
    assert.same({ 2, 2 }, scoped(ridge.ones(2, 3)).shape)
  end)

  it('and a replica gives its gradients back', function()
    local layer = nn.Linear(4, 3, { seed = 1 })
    for _, each in ipairs { layer, nn.SKLinear(4, 3, { low_rank = 2, warn = false }) } do
      local there = each:replica 'cpu'
      there(numbers(1, 2, 4)):sum():backward()
      assert.truthy((each.weight or each.S1s).grad)
    end
  end)
end)

describe('a parametrisation', function()
  it('is computed in each pass, with gradients to the original', function()
    local layer, x = nn.Linear(6, 5, { seed = 1 }), numbers(1, 4, 6)
    local mask = numbers(3, 5, 6):gt(0):to 'f32'
    local plain = layer:clone()
    layer:parametrize('weight', { forward = function(w) return w * mask end })
    assert.is_true(layer.weight:equal(plain.weight * mask))
    layer(x):square():sum():backward()
    local masked = plain.weight:detach() * mask
    masked:requires_grad_()
    plain.weight = masked
    plain(x):square():sum():backward()
    assert.is_true(layer:state().weight.grad:allclose(plain.weight.grad * mask, 1e-5, 1e-5))
    assert.is_true(layer:eval()(x):equal(plain:eval()(x)))
    local optimizer = optim.SGD(layer, { lr = 0.1 })
    optimizer:step()
    assert.is_true((layer.weight * (1 - mask)):abs():sum():item() == 0)
  end)

  it('is saved as its original, and baked in when it goes', function()
    local layer, x = nn.Linear(6, 5, { seed = 1 }), numbers(1, 4, 6)
    local original = layer.weight:clone()
    layer:parametrize('weight', { forward = function(w) return w:tanh() end })
    assert.is_true(layer:state().weight:equal(original))
    local y = layer(x)
    assert.equal(35, (layer:num_parameters()))
    assert.is_true(layer:clone()(x):equal(y))
    assert.equal('f64', layer:to('f64').weight.dtype)
    layer:to 'f32'
    layer:load_state(layer:clone():state())
    layer:remove_parametrization 'weight'
    assert.is_true(layer(x):equal(y))
    assert.is_true(layer:state().weight:equal(original:tanh()))
    assert.is_true(layer.weight.requires_grad)
    assert.is_false(layer._wrapped)
  end)

  it('of low rank has two originals, and what is assigned is cut to them', function()
    local layer, x = nn.Linear(6, 5, { seed = 1 }), numbers(1, 4, 6)
    local function cut(w)
      local u, s, vt = w:svd()
      return u:narrow(2, 1, 2) * s:narrow(1, 1, 2), vt:narrow(1, 1, 2)
    end
    layer:parametrize('weight', { forward = function(a, b) return a:matmul(b) end,
      right_inverse = cut })
    local names = {}
    for _, p in ipairs(layer:parameters()) do names[#names + 1] = p.name end
    assert.same({ 'weight_1', 'weight_2', 'bias' }, names)
    assert.equal(5 * 2 + 2 * 6 + 5, (layer:num_parameters()))
    local a, b = cut(numbers(4, 5, 6))
    layer.weight = a:matmul(b)
    assert.is_true(layer.weight:allclose(a:matmul(b), 1e-4, 1e-4))
    layer(x):sum():backward()
    assert.truthy(layer.weight_1.grad)
    assert.truthy(layer.weight_2.grad)
    layer:remove_parametrization 'weight'
    assert.is_true(layer.weight:allclose(a:matmul(b), 1e-4, 1e-4))
    assert.equal(2, #layer:parameters())
  end)

  it('of a bias counts where forward is called by itself, too', function()
    local x, image = numbers(1, 4, 6), numbers(1, 2, 4, 5, 5)
    for name, case in pairs { linear = { nn.Linear(6, 5), x },
      lowrank = { nn.LowRankLinear(6, 5, { rank = 2 }), x }, conv = { nn.Conv2d(4, 3, 3), image },
      sketched = { nn.SKLinear(6, 5, { low_rank = 2, warn = false }), x },
      norm = { nn.LayerNorm(6), x } } do
      local layer, input = unpack(case)
      local y = layer(input)
      layer:parametrize('bias', { forward = function(b) return b + 3 end })
      assert.is_true(layer(input):allclose(y + 3, 1e-5, 1e-5), name)
      assert.is_true(layer:forward(input):allclose(y + 3, 1e-5, 1e-5), name)
    end
  end)

  it('works on sketches, under recomputing, in data parallel and in a plan', function()
    local x = numbers(1, 4, 6)
    for _, make in ipairs { function() return nn.Linear(6, 5, { seed = 1 }) end, function()
      return nn.SKLinear(6, 5, { seed = 1, low_rank = 2, warn = false })
    end } do
      local layer = make()
      local name = layer.S1s and 'S1s' or 'weight'
      layer:parametrize(name, { forward = function(w) return w * 2 end })
      local y = layer(x)
      y:sum():backward()
      local wanted = layer:state()[name].grad:clone()
      layer:state()[name]:zero_grad()
      layer:recompute()
      layer(x):sum():backward()
      assert.is_true(layer:state()[name].grad:allclose(wanted, 1e-6, 1e-6))
      local both = nn.DataParallel(layer, { devices = { 'cpu', 'cpu' } })
      assert.is_true(both(x):allclose(y, 1e-6, 1e-6))
      local plan = ridge.capture(ridge.inference, layer, x)
      ridge.no_grad(function() layer:state()[name]:mul_(0.5) end)
      assert.is_true(plan():allclose(layer(x), 1e-6, 1e-6))
    end
  end)

  it('says what does not fit', function()
    local layer = nn.Linear(6, 5, { seed = 1 })
    local function half(w) return w * 0.5 end
    local function say(...) return failure(layer.parametrize, layer, ...).message end
    assert.matches('no parameter of this module', say('wieght', { forward = half }))
    assert.matches('forward = function', say('weight', {}))
    assert.matches('forward = function', say('weight', half))
    assert.matches('what forward gives for weight is f32%[5,6%], and f32%[6,5%] was given',
      say('weight', { forward = function(w) return w:t():contiguous() end }))
    assert.is_false(layer._wrapped)
    layer:parametrize('weight', { forward = half })
    assert.matches('parametrised already', say('weight', { forward = half }))
    assert.matches('without right_inverse', failure(function()
      layer.weight = ridge.ones(5, 6)
    end).message)
    assert.matches('is not parametrised', failure(layer.remove_parametrization, layer, 'bias')
      .message)
    layer:remove_parametrization 'weight'
    local broken = nn.Linear(6, 5)
    local fails = false
    broken:parametrize('weight', { forward = function(w)
      assert(not fails, 'broken')
      return w
    end })
    fails = true
    failure(broken, ridge.ones(1, 6))
    fails = false
    assert.is_true(broken._tensors.weight == nil)
  end)
end)

describe('a parameter that is replaced', function()
  local x = numbers(1, 4, 6)

  local function stale(plan, name)
    local e = failure(plan)
    assert.equal('ECAPTURE', e.code)
    assert.truthy(e.message:find('plan: ' .. name .. ' was replaced after the capture', 1, true))
    assert.same({ false, name }, { plan:is_current() })
    assert.matches('was replaced', failure(plan.handle, plan).message)
  end

  it('stops a plan, by name, and not that of others', function()
    local net, other = nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 4)), nn.Linear(6, 5)
    local plan = ridge.capture(ridge.inference, net, x)
    local free = ridge.capture(ridge.inference, other, x)
    local y = plan():clone()
    ridge.no_grad(function() net[1].weight:mul_(2) end) -- a write is none
    assert.is_false(plan():equal(y))
    net[2].bias = ridge.ones(4)
    stale(plan, '2.bias')
    assert.is_true(free():equal(ridge.inference(other, x)))
    assert.is_true(free:is_current())
    assert.is_true(ridge.capture(ridge.inference, net, x)():equal(ridge.inference(net, x)))
  end)

  it('by a parametrisation over the same tensor, and by its end', function()
    local layer = nn.Linear(6, 5)
    local plan = ridge.capture(ridge.inference, layer, x)
    local graph = ridge.graph(ridge.inference, layer, x):plan()
    layer:parametrize('weight', { forward = function(w) return w * 0 end })
    stale(plan, 'weight')
    stale(graph, 'weight')
    plan = ridge.capture(ridge.inference, layer, x)
    assert.is_true(plan():equal(ridge.inference(layer, x)))
    layer:parametrize('bias', { forward = function(b) return b + 1 end })
    stale(plan, 'bias')
    plan = ridge.capture(ridge.inference, layer, x)
    layer:remove_parametrization 'weight'
    stale(plan, 'weight')
  end)

  it('by a conversion, and where a parameter was read, or went to a parametrisation', function()
    local layer = nn.Linear(6, 5)
    local plan = ridge.capture(ridge.inference, layer, x)
    layer:to 'f32'
    assert.is_true(plan():equal(ridge.inference(layer, x)))
    layer:to 'f64'
    stale(plan, 'weight')
    layer = nn.Linear(6, 5)
    plan = ridge.capture(function() return x:matmul(layer.weight:detach():t()) end)
    layer.weight = ridge.ones(5, 6)
    stale(plan, 'weight')
    layer = nn.LSTM(6, 5)
    local sequence = numbers(2, 1, 3, 6)
    plan = ridge.capture(ridge.inference, layer, sequence)
    layer.cells[1].recurrent.weight = layer.cells[1].recurrent.weight * 2
    stale(plan, '1.recurrent.weight')
  end)

  it('requires a gradient where the one before it did, in evaluation mode too', function()
    local layer = nn.Linear(6, 5):eval()
    layer.weight = numbers(3, 5, 6)
    layer(x):sum():backward()
    assert.truthy(layer.weight.grad)
    layer:parametrize('bias', { forward = function(a, b) return a + b end,
      right_inverse = function(b) return b * 0.5, b * 0.5 end })
    assert.is_true(layer.params[2].tensor.requires_grad and layer.params[3].tensor.requires_grad)
    layer:remove_parametrization 'bias'
    assert.is_true(layer.bias.requires_grad)
    layer:freeze()
    layer.weight = numbers(4, 5, 6)
    assert.is_false(layer.weight.requires_grad)
    layer:parametrize('weight', { forward = function(w) return w * 2 end })
    layer:remove_parametrization 'weight'
    assert.is_false(layer.weight.requires_grad)
    layer:freeze(false) -- it is known to be frozen still
    assert.is_true(layer:train().weight.requires_grad)
  end)

  it('is seen by the optimizer at its next step, with fresh moments, which it says once', function()
    for _, how in ipairs { 'module', 'list', 'groups' } do
      local net = nn.Sequential(nn.Linear(6, 5, { seed = 1 }), nn.Linear(5, 4, { seed = 2 }))
      local optimizer = optim.Adam(how == 'module' and net or how == 'list' and net:parameters()
        or { { params = net[1] }, { params = net[2], lr = 0.5 } }, { lr = 0.1 })
      local function step()
        optimizer:zero_grad()
        net(x):square():sum():backward()
        optimizer:step()
      end
      step()
      step()
      local said = {}
      local stderr = io.stderr
      io.stderr = { write = function(_, text) said[#said + 1] = text end } -- luacheck: ignore 122
      local ok, err = pcall(function()
        net[1].weight = net[1].weight * 0.5
        local before, other = net[1].weight:clone(), optimizer:state()['1.1.2']:clone()
        assert.is_true(optimizer:state()['1.1.1']:abs():sum():item() == 0)
        assert.is_true(other:abs():sum():item() > 0)
        step()
        assert.is_false(before:equal(net[1].weight))
        net:to 'f64'
        x = x:to 'f64'
        step()
        step()
        assert.equal('f64', optimizer:state()['1.1.1'].dtype)
      end)
      io.stderr, x = stderr, x:to 'f32' -- luacheck: ignore 122
      assert.is_true(ok, tostring(err))
      assert.equal(how == 'groups' and 3 or 2, #said)
      assert.matches(how == 'groups' and 'Adam: weight was replaced; moments start again'
        or 'Adam: 1.weight was replaced; moments start again', said[1])
      assert.matches('parameter_spec.lua:%d+: ', said[1])
      assert.equal(5, optimizer:steps())
    end
  end)

  it('says nothing where parameters only change places or go, and keeps their moments', function()
    for _, how in ipairs { 'places', 'goes' } do
      local net = nn.Sequential(nn.Linear(3, 3, { seed = 1, bias = false }),
        nn.Linear(3, 3, { seed = 2, bias = false }))
      local optimizer = optim.SGD(net, { lr = 0.5, momentum = 0.9 })
      local function step()
        optimizer:zero_grad()
        for i = 1, 2 do (net[i].weight * i):sum():backward() end
        optimizer:step()
      end
      step()
      local first, second, moment = net[1].weight, net[2].weight, optimizer:state()['1.1.2']:clone()
      local said, stderr = {}, io.stderr
      io.stderr = { write = function(_, text) said[#said + 1] = text end } -- luacheck: ignore 122
      local ok, err = pcall(function()
        if how == 'places' then net[2].weight = first end
        net[1].weight = second
        step()
      end)
      io.stderr = stderr -- luacheck: ignore 122
      assert.is_true(ok, tostring(err))
      assert.same({}, said, how)
      local state = optimizer:state()
      -- the second weight's, which is the first now: what it was, and the new gradient
      local gradient = how == 'places' and 1 or 3
      assert.same((moment * 0.9 + gradient):tolist(), state['1.1.1']:tolist())
      assert.equal(how == 'places', state['1.1.2'] ~= nil)
    end
  end)

  it('that is tied, or not any more, is stepped as it is now', function()
    local net = nn.Sequential(nn.Embedding(7, 4, { seed = 1 }),
      nn.Linear(4, 7, { seed = 2, bias = false }))
    local optimizer = optim.Adam(net, { lr = 0.1 })
    net[2].weight = net[1].weight
    optimizer:look_again()
    assert.equal(1, #optimizer.groups[1].params)
    local stderr = io.stderr
    io.stderr = { write = function() end } -- luacheck: ignore 122
    net[2].weight = net[1].weight * 2
    optimizer:look_again()
    io.stderr = stderr -- luacheck: ignore 122
    assert.equal(2, #optimizer.groups[1].params)
  end)

  it('is taken up by a trainer that replays its steps', function()
    local function trained(compile)
      local net = nn.Sequential(nn.Linear(6, 5, { seed = 1 }), nn.Linear(5, 4, { seed = 2 }))
      local trainer = ridge.Trainer(net, { optimizer = optim.SGD(net, { lr = 0.1 }),
        compile = compile, say = function() end, loss = nn.mse_loss })
      local loader = ridge.data.Loader({ numbers(1, 12, 6), numbers(2, 12, 4) },
        { batch = 4, seed = 1, shuffle = false })
      trainer:fit(loader, { epochs = 2 })
      net[1].weight = net[1].weight * 0.5
      trainer:fit(loader, { epochs = 4 })
      return net[1].weight
    end
    local stderr = io.stderr
    io.stderr = { write = function() end } -- luacheck: ignore 122
    local ok, one, two = pcall(function() return trained(true), trained(false) end)
    io.stderr = stderr -- luacheck: ignore 122
    assert.is_true(ok, tostring(one))
    assert.is_true(one:equal(two))
  end)
end)
