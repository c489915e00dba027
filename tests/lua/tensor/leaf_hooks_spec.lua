-- SPDX-License-Identifier: MIT
-- When in a backward pass the gradient of a leaf is complete: hooks of tensors (x:on_gradient).

local ridge = require 'ridge'
local C = require 'ridge.ffi.lib'
local backward = require 'ridge.tensor.backward'
local ref = require 'ridge.ffi.ref'
local leaf_hooks = require 'ridge.tensor.leaf_hooks'
local bits = dofile 'tests/lua/bits.lua'
local seeded = dofile 'tests/lua/seeded.lua'
local nn = ridge.nn

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function leaf(...) return ridge.randn(...):requires_grad_() end

local handles = {} -- of `watch`: what its hooks hold goes with them

-- What is told, in order: names, and the bits of the gradient at that time.
local function watch(tensors, log)
  for name, x in pairs(tensors) do
    handles[#handles + 1] = x:on_gradient(function(t)
      assert.is_true(rawequal(t, x))
      log[#log + 1] = name
      log[name] = bits.of(t.grad)
    end)
  end
end

local function text(log) return table.concat(log, ' ') end

-- The same function with and without hooks: every leaf that has a gradient is told once, when its
-- gradient has the bits that it has behind the pass, and these are those without hooks.
local function same_with_hooks(make, passes)
  local function run(hooked)
    ridge.seed(11)
    local tensors, step = make()
    local log, all = {}, {}
    if hooked then watch(tensors, log) end
    for _ = 1, passes or 1 do
      for i = #log, 1, -1 do log[i] = nil end
      step()
      local found = {}
      for name, x in pairs(tensors) do found[name] = x.grad and bits.of(x.grad) or nil end
      if hooked then
        local n = 0
        for name, want in pairs(found) do
          n = n + 1
          assert.equal(want, log[name], name)
        end
        local seen = {}
        for _, name in ipairs(log) do
          assert.is_nil(seen[name], name .. ' is told twice')
          seen[name] = true
        end
        assert.equal(n, #log)
      end
      all[#all + 1] = found
    end
    return all, log
  end
  local plain = run(false)
  local hooked, log = run(true)
  assert.same(plain, hooked)
  return log
end

describe('a hook on the gradient of a leaf', function()
  local before -- leaves with hooks

  before_each(function()
    ref.collect()
    backward.functions()
    before = leaf_hooks.count
  end)

  after_each(function()
    for _, handle in ipairs(handles) do handle:remove() end
    handles = {}
  end)

  it('is called when the last consumer has passed, before the calls that are left', function()
    local log = {}
    local a, b, c = leaf(3), leaf(3), leaf(3)
    watch({ a = a, b = b, c = c }, log)
    local function mark(x, name) return ridge.hook(x, function() log[#log + 1] = name end) end
    local y = mark(a * 2, 'first')
    y = mark(y * b, 'second')
    y = mark(y * c + b, 'third') -- b is read twice
    y:sum():backward()
    -- c is complete in the product, before 'second' is asked; b in the product before 'first'
    assert.equal('third c second b first a', text(log))
  end)

  it('has the whole gradient of a leaf that is read several times, by views too', function()
    same_with_hooks(function()
      local x, w = leaf(4, 6), leaf(6, 6)
      return { x = x, w = w }, function()
        local y = x:matmul(w):relu():matmul(w:t()) + x * x
        y = y + w:narrow(1, 2, 4):exp() + w:select(1, 3)
        y:sum():backward()
      end
    end, 3)
  end)

  it('is called for a leaf that is the root, which no call reads', function()
    local log = {}
    local x = leaf(1)
    watch({ x = x }, log)
    x:backward()
    assert.equal('x', text(log))
    assert.same({ 1 }, x.grad:tolist())
    local y = ridge.ones(2):requires_grad_()
    watch({ y = y }, log)
    y:backward(ridge.tensor { 3, 4 })
    assert.equal('x y', text(log))
    y:narrow(1, 2, 1):backward(ridge.tensor { 5 })
    assert.equal('x y y', text(log))
    assert.same({ 3, 9 }, y.grad:tolist())
  end)

  it('is not called where no gradient arrives', function()
    local log = {}
    local half = ridge.Function { forward = function(_, x, y) return x + y end,
      backward = function(_, dy) return dy, nil end }
    local x, y, z = leaf(2), leaf(2), leaf(2)
    watch({ x = x, y = y, z = z }, log)
    half(x, y):sum():backward()
    assert.equal('x', text(log))
    assert.is_nil(y.grad)
  end)

  it('is called once for tied weights, and for each part of a storage', function()
    local log = same_with_hooks(function()
      local one, other = nn.Linear(4, 4, { seed = 1 }), nn.Linear(4, 4, { seed = 2 })
      other.weight = one.weight
      local net = nn.Sequential(one, nn.Tanh(), other)
      local x = ridge.ones(2, 4)
      local tensors = {}
      for _, p in ipairs(net:parameters()) do tensors[p.name] = p.tensor end
      return tensors, function() net(x):square():sum():backward() end
    end, 2)
    assert.equal('3.bias 1.weight 1.bias', text(log))
    -- trained and fixed factors side by side in one storage
    for _, form in ipairs { 'stored', 'bits', 'seed' } do
      same_with_hooks(function()
        local net = nn.Sequential(nn.SKLinear(8, 8, { num_terms = 2, low_rank = 2, seed = 2,
          form = form, warn = false }), nn.LayerNorm(8), nn.Linear(8, 2, { seed = 3 }))
        local x, tensors = ridge.randn(3, 8), {}
        for _, p in ipairs(net:parameters()) do
          if p.trainable then tensors[p.name] = p.tensor end
        end
        return tensors, function() net(x):square():sum():backward() end
      end, 2)
    end
  end)

  it('is called in each pass, also in one that goes the same way again', function()
    local log = {}
    local x = ridge.ones(2):requires_grad_()
    watch({ x = x }, log)
    local y = (x * x):sum()
    y:backward { retain = true }
    y:backward()
    assert.equal('x x', text(log))
    assert.same({ 4, 4 }, x.grad:tolist())
  end)

  it('is not called for gradients that are handed out', function()
    local log = {}
    local x = leaf(2)
    watch({ x = x }, log)
    local g = ridge.grad((x * x * x):sum(), x, { create = true })
    ridge.grad(g:sum(), x)
    assert.equal('', text(log))
    assert.is_nil(x.grad)
    g = ridge.grad((x * x * x):sum(), x, { create = true })
    g:sum():backward() -- the gradient of a gradient is accumulated
    assert.equal('x', text(log))
  end)

  -- -- Passes within passes -----------------------------------------------------------------------

  it('waits for parts that are computed again', function()
    local log = same_with_hooks(function()
      local w, v, u = leaf(4, 4), leaf(4, 4), leaf(4, 4)
      local x = leaf(2, 4)
      local function part(h) return h:matmul(w):tanh() end
      return { w = w, v = v, u = u, x = x }, function()
        local y = ridge.recompute(part, x:matmul(u))
        y = ridge.recompute(function(h) return part(h:matmul(v)) end, y)
        y = y:matmul(w) * 3 -- w is read outside, too
        y:sum():backward()
      end
    end, 3)
    -- w and v are complete behind the first part, which is computed again last
    assert.equal('w v x u', text(log))
  end)

  it('waits for parts in parts, and for those of several results', function()
    same_with_hooks(function()
      local w, v, x = leaf(4, 4), leaf(4, 4), leaf(2, 4)
      local function inner(h) return (h:matmul(w) + h):tanh() end
      local function outer(h)
        local y = ridge.recompute(inner, h:matmul(v))
        return y, ridge.recompute(inner, y)
      end
      return { w = w, v = v, x = x }, function()
        local p, q = ridge.recompute(outer, x)
        local loss = (p * q):sum()
        loss:backward()
      end
    end, 2)
  end)

  it('is called in a layer after the other where each is computed again', function()
    local log = same_with_hooks(function()
      local net = nn.Sequential(nn.Linear(4, 4, { seed = 1 }), nn.Tanh(), nn.Linear(4, 4,
        { seed = 2 }), nn.Tanh(), nn.Linear(4, 4, { seed = 3 }))
      net:recompute(3)
      local x, tensors = ridge.randn(2, 4), {}
      for _, p in ipairs(net:parameters()) do tensors[p.name] = p.tensor end
      return tensors, function() net(x):square():sum():backward() end
    end, 2)
    assert.equal(6, #log)
  end)

  it('has passes of its own, which are told by themselves', function()
    local log = {}
    local x, y = leaf(2), leaf(2)
    local inner = false
    x:on_gradient(function()
      log[#log + 1] = 'x'
      if not inner then
        inner = true
        ridge.enable_grad(function() (y * 2):sum():backward() end)
      end
    end)
    watch({ y = y }, log)
    local z = ridge.hook(y * 1, function() log[#log + 1] = 'between' end)
    local loss = (z:exp() * x):sum()
    loss:backward()
    assert.equal('x y between y', text(log))
    assert.is_true(y.grad:allclose(x:detach() * y:detach():exp() + 2, 1e-5, 1e-6))
  end)

  -- -- What a hook may do -------------------------------------------------------------------------

  it('may step and forget: the bits of steps behind the pass', function()
    local function train(inside)
      local net = nn.Sequential(nn.Linear(5, 7, { seed = 1 }), nn.GELU(), nn.Linear(7, 2,
        { seed = 2 }))
      local x = ridge.generator(5)
      x = ridge.randn(4, 5, { generator = x })
      local function step(t)
        t:sub_(t.grad * 0.1)
        t:zero_grad()
      end
      if inside then
        for _, p in ipairs(net:parameters()) do p.tensor:on_gradient(step) end
      end
      for _ = 1, 5 do
        net(x):square():mean():backward()
        for _, p in ipairs(net:parameters()) do
          if inside then assert.is_nil(p.tensor.grad) else ridge.no_grad(step, p.tensor) end
        end
      end
      local out = {}
      for _, p in ipairs(net:parameters()) do out[#out + 1] = bits.of(p.tensor) end
      return out
    end
    assert.same(train(false), train(true))
  end)

  it('is removed by its handle, by itself and by others', function()
    local log = {}
    local x = leaf(2)
    local three = {}
    for i = 1, 3 do
      three[i] = x:on_gradient(function() log[#log + 1] = i end)
    end
    local function pass() (x * x):sum():backward() end
    pass()
    three[2]:remove()
    three[2]:remove()
    pass()
    assert.equal('1 2 3 1 3', text(log))
    local mine
    mine = x:on_gradient(function()
      log[#log + 1] = 'self'
      mine:remove()
      three[3]:remove()
    end)
    local last = x:on_gradient(function() log[#log + 1] = 'last' end)
    pass()
    pass()
    assert.equal('1 2 3 1 3 1 3 self last 1 last', text(log))
    three[1]:remove()
    last:remove()
    assert.equal(before, leaf_hooks.count)
    pass()
    assert.equal(11, #log)
  end)

  it('may end the hook of a leaf that is complete later, and add one for the next pass', function()
    local log = {}
    local a, b = leaf(2), leaf(2)
    local of_a = a:on_gradient(function() log[#log + 1] = 'a' end)
    local first
    first = b:on_gradient(function()
      of_a:remove()
      first:remove()
      a:on_gradient(function() log[#log + 1] = 'new' end)
    end)
    local function pass() ((a * 2):exp() * b):sum():backward() end
    pass()
    assert.equal('', text(log)) -- a had one when the pass began, another one when it was complete
    pass()
    assert.equal('new', text(log))
  end)

  it('raises out of backward, and leaves gradients whole and the tape empty', function()
    local a, b, c = leaf(3), leaf(3), leaf(3)
    local calls = ridge.grad_stats().calls
    local handle = b:on_gradient(function() error 'no luck' end)
    local function pass() ((a * 2):exp() * b * c):sum():backward() end
    local log = {}
    watch({ c = c }, log)
    assert.matches('leaf_hooks_spec.lua:%d+: no luck', message(pass))
    assert.equal('c', text(log))
    assert.is_not_nil(c.grad)
    assert.is_not_nil(b.grad) -- complete, therefore told
    assert.is_nil(a.grad)
    ref.collect()
    assert.equal(calls, ridge.grad_stats().calls)
    handle:remove()
    for _, x in ipairs { a, b, c } do x:zero_grad() end
    pass()
    local want = (a * 2):exp() * b * c -- d/da of it is 2 of itself
    assert.is_true(a.grad:allclose(2 * want:detach(), 1e-5, 1e-6))
    assert.is_true(c.grad:allclose(want:detach() / c:detach(), 1e-4, 1e-5))
  end)

  it('sees the prompt interrupted in the calls behind it', function()
    local a, b = leaf(3), leaf(3)
    b:on_gradient(function() C.rg_interrupt_set() end)
    local why = message(function() ((a * 2):exp() * b):sum():backward() end)
    C.rg_interrupt_clear()
    assert.matches('interrupted', why)
    assert.is_nil(a.grad)
  end)

  it('may wait in a coroutine, while another goes on', function()
    local log = {}
    local w = leaf(2)
    local one = coroutine.create(function()
      local a, b = leaf(2), leaf(2)
      b:on_gradient(function()
        log[#log + 1] = 'b'
        coroutine.yield()
      end)
      a:on_gradient(function() log[#log + 1] = 'a' end)
      local loss = ((a * 2):exp() * b):sum()
      loss:backward()
      assert.is_true(ridge.grad((a * 2):exp():sum(), a):allclose(a.grad / b:detach(), 1e-5, 1e-6))
    end)
    assert(coroutine.resume(one))
    watch({ w = w }, log)
    local y = (w * w):sum()
    assert.is_true(y.requires_grad) -- no state of the hook stays on out here
    y:backward()
    assert(coroutine.resume(one))
    assert.equal('b w a', text(log))
  end)

  it('is part of a captured step', function()
    local function step_of(captured)
      local net = nn.Linear(3, 2, { seed = 4 })
      local calls, x = 0, ridge.generator(9)
      x = ridge.randn(4, 3, { generator = x })
      for _, p in ipairs(net:parameters()) do
        p.tensor:on_gradient(function(t)
          calls = calls + 1
          t.grad:mul_(0.5)
          t:sub_(t.grad)
          t:zero_grad { set = true }
        end)
      end
      local loss
      local function step()
        loss = net(x):square():sum()
        loss:backward()
        loss = loss:detach()
        return loss
      end
      step()
      local losses = {}
      local plan = captured and ridge.capture(step)
      for i = 1, 4 do
        if plan then
          if i > 1 then plan:run() end
        else
          step()
        end
        losses[i] = loss:item()
      end
      return losses, bits.of(net.weight), calls
    end
    local eager, weight, calls = step_of(false)
    assert.equal(10, calls)
    local replayed, again, told = step_of(true)
    assert.same(eager, replayed)
    assert.equal(weight, again)
    assert.equal(4, told)
  end)

  -- -- Whose it is --------------------------------------------------------------------------------

  it('outlasts freezing', function()
    local log = {}
    local net = nn.Linear(3, 2)
    watch({ w = net.weight }, log)
    local function pass() net(ridge.ones(1, 3)):sum():backward() end
    net:freeze()
    assert.equal(before, leaf_hooks.count)
    assert.is_false(pcall(pass))
    net:freeze(false)
    pass()
    assert.equal('w', text(log))
    net:freeze()
    net.weight:requires_grad_()
    pass()
    assert.equal('w w', text(log))
  end)

  it('of two tensors of one storage are both called, each for its own', function()
    local log = {}
    local x = leaf(4)
    local part = x:narrow(1, 1, 2)
    watch({ x = x, part = part }, log)
    x:square():sum():backward()
    table.sort(log)
    assert.equal('part x', text(log))
    assert.equal(before + 1, leaf_hooks.count)
  end)

  it('ends with its tensor', function()
    local alive = setmetatable({}, { __mode = 'v' })
    do
      local x = leaf(2)
      alive[1] = {}
      local kept = alive[1]
      x:on_gradient(function() return kept end)
      x:square():sum():backward()
      x, kept = nil, nil -- luacheck: ignore 311
    end
    ridge.scope(function() leaf(2):on_gradient(function() end) end)
    ref.collect()
    backward.functions()
    assert.equal(before, leaf_hooks.count)
    collectgarbage()
    assert.is_nil(alive[1])
    -- a part of a storage that lives on
    local y = leaf(4)
    local log = {}
    y:narrow(1, 1, 2):on_gradient(function() log[1] = 'gone' end)
    ref.collect()
    y:square():sum():backward()
    assert.same({}, log)
    assert.equal(before, leaf_hooks.count)
    y:on_gradient(function() log[1] = 'here' end)
    y:square():sum():backward()
    assert.same({ 'here' }, log)
    y:release()
  end)

  it('says what is wrong', function()
    local x = leaf(2)
    assert.matches('on_gradient: f32%[2%] was computed', message(function()
      (x * 2):on_gradient(print)
    end))
    assert.matches('on_gradient: f32%[2%] requires no gradient', message(function()
      ridge.ones(2):on_gradient(print)
    end))
    assert.matches('on_gradient: f32%[2%] requires no gradient', message(function()
      x:detach():on_gradient(print)
    end))
    assert.matches('a function is expected, got 3', message(function() x:on_gradient(3) end))
    assert.matches('leaf_hooks_spec.lua:%d+:', message(function() x:on_gradient(nil) end))
  end)

  it('tells every leaf once, when it is complete, of random graphs', function()
    local told, early = 0, 0
    for seed = 1, 200 do
      local log = same_with_hooks(function()
        local draw = seeded(seed)
        local g = ridge.generator(seed)
        local tensors, list = {}, {}
        for i = 1, 2 + draw(4) do
          local x = ridge.randn(3, 3, { generator = g }):requires_grad_()
          tensors['x' .. i], list[i] = x, x
        end
        local program = {}
        for i = 1, 3 + draw(12) do program[i] = { draw(7), draw(1000), draw(1000) } end
        return tensors, function()
          local values = { unpack(list) }
          local function at(n) return values[n % #values + 1] end
          for _, p in ipairs(program) do
            local a, b = at(p[2]), at(p[3])
            local y
            if p[1] == 1 then y = a:matmul(b):tanh()
            elseif p[1] == 2 then y = a * b
            elseif p[1] == 3 then y = a:t() + b
            elseif p[1] == 4 then y = a:narrow(1, 2, 1) - b
            elseif p[1] == 5 then
              y = ridge.recompute(function(h) return h:tanh() * list[1] + list[2] end, a)
            elseif p[1] == 6 then y = ridge.hook(a, function() end)
            else
              y = a:detach():clone() * 1
              y:narrow(1, 1, 2):add_(b:narrow(1, 2, 2))
            end
            values[#values + 1] = y
          end
          local sum = values[#values]:square():mean() + at(program[1][2]):mean()
          sum:backward()
        end
      end, 2)
      told = told + #log
      early = early + (#log > 1 and 1 or 0)
    end
    assert.is_true(told > 400, told)
    assert.is_true(early > 100, early)
  end)
end)
