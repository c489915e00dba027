-- SPDX-License-Identifier: MIT
-- ridge.compile: what lies outside of a function that plans have to agree with: gradients that are
-- there or not, arguments that are views of each other, tensors that it leaves behind.
local ridge = require 'ridge'
local nn, optim = ridge.nn, ridge.optim

local function compiled(f, opts)
  local lines = {}
  opts = opts or {}
  opts.say = function(line) lines[#lines + 1] = line end
  return ridge.compile(f, opts), lines
end

local function at(x, i) return x[i]:item() end

-- Twelve steps of a layer: what its gradient is after each, and its weights in the end.
local function trained(opts)
  ridge.seed(2)
  local n = nn.Linear(6, 4, { seed = 3 })
  local o = optim.SGD(n, { lr = 0.05 })
  local f, lines = function(x)
    if opts.inside then o:zero_grad() end
    local loss = n(x):square():mean()
    loss:backward()
    return loss
  end
  local compiled_f = f
  if opts.compile then compiled_f, lines = compiled(f) end
  if opts.warm then f(ridge.randn(8, 6)) end
  local sums = {}
  for i = 1, 12 do
    if opts.before then opts.before(o, i) end
    compiled_f(ridge.randn(opts.sizes and i % 4 == 3 and 5 or 8, 6))
    sums[i] = n.weight.grad:abs():sum():item()
    o:step()
  end
  return { sums = sums, weight = n.weight:detach(), lines = lines,
    report = opts.compile and compiled_f:report() }
end

local function same_training(opts)
  local want = trained(opts)
  opts.compile = true
  local got = trained(opts)
  for i, sum in ipairs(want.sums) do
    assert.is_true(math.abs(sum - got.sums[i]) <= 1e-5 * sum, ('step %d'):format(i))
  end
  assert.is_true((want.weight - got.weight):abs():max():item() < 1e-6)
  for _, row in ipairs(got.report) do assert.equal('default', row.mode) end
  return got
end

describe('ridge.compile, gradients', function()
  it('hands on those of the plan that ran last, at several sizes', function()
    local got = same_training { inside = true, sizes = true }
    assert.equal(2, #got.lines)
  end)

  it('adds to those that are there, and makes them where none are', function()
    same_training {}
    same_training { before = function(o) o:zero_grad() end }
    same_training { before = function(o, i) if i % 3 == 0 then o:zero_grad() end end }
    same_training { before = function(o, i) if i >= 4 then o:zero_grad() end end }
    same_training { sizes = true, before = function(o, i) if i % 3 == 0 then o:zero_grad() end end }
  end)

  it('may be dropped at the end of a step', function()
    local function run(compile)
      ridge.seed(3)
      local n = nn.Linear(6, 4, { seed = 3 })
      local o = optim.SGD(n, { lr = 0.05 })
      local f = function(x)
        n(x):square():mean():backward()
        o:step()
        o:zero_grad()
      end
      if compile then f = compiled(f) end
      for i = 1, 8 do
        if i == 5 then n(ridge.randn(8, 6)):sum():backward() end -- and then it adds to these
        f(ridge.randn(8, 6))
        assert.is_nil(n.weight.grad)
      end
      return n.weight:detach()
    end
    assert.is_true((run(false) - run(true)):abs():max():item() < 1e-6)
  end)

  it('is not proved right by gradients that are zeros', function()
    local got = same_training { before = function(o, i)
      if i < 4 then o:zero_grad { set = true } end
    end }
    assert.matches('with gradients and without', table.concat(got.lines, '\n'))
    same_training { warm = true, before = function(o, i)
      o:zero_grad { set = i < 6 }
    end }
  end)

  it('are nothing to a forward pass that writes', function()
    local n = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm(4))
    local f, lines = compiled(function(x) return (n(x)) end)
    for i = 1, 4 do
      if i == 3 then n(ridge.randn(8, 6)):sum():backward() end
      f(ridge.randn(8, 6))
    end
    assert.is_nil(table.concat(lines, '\n'):match 'with gradients and without')
    assert.equal('default', f:report()[1].mode, table.concat(lines, '\n'))
  end)

  it('are not lost where an argument requires one at a later call', function()
    local f = compiled(function(x) return x * 3 end)
    for _ = 1, 2 do f(ridge.ones(2)) end
    local x = ridge.ones(2):requires_grad_()
    f(x):sum():backward()
    assert.equal(3, at(x.grad, 1))
    assert.equal(3, at(f(ridge.ones(2)), 1))
    assert.same({ 'default', 'eager' }, { f:report()[2].mode, f:report()[1].mode })
  end)

  it('of tensors that are no parameters stay right', function()
    local w = ridge.ones(2):requires_grad_()
    local f, lines = compiled(function(x)
      w:zero_grad()
      local loss = (x * w):sum()
      loss:backward()
      return loss
    end)
    for i = 1, 4 do
      f(ridge.ones(2) * i)
      assert.equal(i, at(w.grad, 1))
    end
    assert.matches('leaves a tensor behind', lines[1])
  end)
end)

describe('ridge.compile, arguments', function()
  it('are not taken for others', function()
    local f = compiled(function(a, b) return ridge.ones(2) * (#a + (b and #b or 0)) end)
    assert.equal(2, at(f('a', 'b'), 1))
    assert.equal(4, at(f('a sb'), 1))
    assert.equal(5, at(f('a" "b'), 1))
  end)

  it('that are the same tensor twice are the same to what writes to them', function()
    local function both(a, b)
      a:add_(1)
      b:mul_(2)
      return b * 1
    end
    local f = compiled(both)
    for _ = 1, 3 do
      local x, y = ridge.ones(2), ridge.ones(2)
      assert.equal(2, at(f(x, y), 1))
      assert.same({ 2, 2 }, { at(x, 1), at(y, 1) })
      assert.equal(4, at(f(x, x), 1) - 2)
      assert.equal(6, at(x, 1))
    end
  end)

  it('that are views of one memory are so to what writes to them', function()
    local n = 0
    local f, lines = compiled(function(a, b)
      n = n + 1
      a:add_(ridge.rand(1):mul_(0):add_(1))
      return b * 1
    end)
    for i = 1, 3 do
      local x = ridge.zeros(2, 2)
      assert.equal(1, at(f(x, x[1]), 1))
      assert.equal(1, x[2][2]:item())
      assert.equal(i + 1, n) -- the first time it is called once more
    end
    assert.matches('views of one memory', lines[1])
    local g = compiled(function(a, b) return a:sum() + b:sum() end) -- read, they are two
    local x = ridge.ones(2, 2)
    for _ = 1, 3 do assert.equal(6, g(x, x[1]):item()) end
    assert.equal('default', g:report()[1].mode)
  end)

  it('are not read once more where the first reading was wrong and more was written', function()
    local w = ridge.zeros(2)
    local f = compiled(function(a)
      w:add_(1)
      return a * 1
    end)
    local ok, err = pcall(f, w)
    assert.is_false(ok)
    assert.matches('writes to the memory of its argument 1 by another name', tostring(err))
    assert.equal(1, at(w, 1))
    assert.equal(2, at(f(w), 1))
    assert.equal(3, at(f(w), 1))
  end)
end)

describe('ridge.compile, what stays outside', function()
  it('is new after each call', function()
    local last
    local f, lines = compiled(function(x)
      last = x * 2
      return last + 1
    end)
    for i = 1, 4 do
      f(ridge.ones(2) * i)
      assert.equal(2 * i, at(last, 1))
    end
    assert.equal(1, #lines)
    assert.matches('leaves a tensor behind that it does not return', lines[1])
    f = compiled(function(x)
      last = x * 2
      return last + 1
    end, { fallback = false })
    f(ridge.ones(2))
    local ok, err = pcall(f, ridge.ones(2))
    assert.is_false(ok)
    assert.matches('leaves a tensor behind', tostring(err))
  end)

  it('may be what is made once, and what is marked as used', function()
    local cache
    local f = compiled(function(x)
      cache = cache or ridge.ones(2) * ridge.ones(1)
      return x + cache
    end)
    for _ = 1, 3 do assert.equal(2, at(f(ridge.ones(2)), 2)) end
    assert.equal('default', f:report()[1].mode)
    f = compiled(function(x)
      ridge.used(x:exp())
      return x + 1
    end)
    for _ = 1, 3 do assert.equal(2, at(f(ridge.ones(2)), 2)) end
    assert.equal('default', f:report()[1].mode)
  end)
end)

describe('ridge.compile, modes around a call', function()
  it('are what a plan is for: autocast, no_grad and inference', function()
    local n = nn.Sequential(nn.Linear(6, 4, { seed = 1 }), nn.BatchNorm(4))
    local f = compiled(n)
    local linear = compiled(function(x) return x:matmul(x:t()) end)
    local x = ridge.randn(8, 6)
    for _ = 1, 3 do
      assert.equal('f32', linear(x).dtype)
      assert.equal('bf16', ridge.autocast('bf16', linear, x).dtype)
      local want = ridge.inference(n, x)
      assert.is_true((ridge.inference(f, x) - want):abs():max():item() < 1e-5)
      want = ridge.no_grad(n, x) -- of this batch
      assert.is_true((ridge.no_grad(f, x) - want):abs():max():item() < 1e-5)
    end
  end)
end)

describe('ridge.compile, report', function()
  it('counts the first call as one that would have taken its time in any case', function()
    local function pays(cost)
      local shelf = require('ridge.plan').shelf(2)
      shelf:put('a', { text = 'a', mode = 'default', calls = 3, cost_ms = cost, eager_ms = 2,
        made = { steady_ms = 1 }, recording = { ms = 1 } })
      return require('ridge.compile.report').of { shelf = shelf }[1]
    end
    assert.equal(4, pays(5).pays_after) -- 5 + 3 * 1 = 4 * 2
    assert.is_false(pays(5).paid)
    assert.equal(3, pays(4).pays_after)
    assert.is_true(pays(4).paid)
  end)
end)
