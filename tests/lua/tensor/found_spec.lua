-- SPDX-License-Identifier: MIT
--- Sums of products over named axes; positions and values whose number depends on the data; norms
--- over channels.

local ridge = require 'ridge'

local function numbers(x)
  local list = {}
  x = x:contiguous():reshape(-1)
  for i = 1, x.count do list[i] = x:get(i) end
  return list
end

local function near(wanted, got)
  assert.equal(#wanted, #got)
  for i, v in ipairs(wanted) do
    assert.is_true(math.abs(v - got[i]) <= 1e-4 * math.max(1, math.abs(v)),
      ('%d: %g, wanted %g'):format(i, got[i], v))
  end
end

local function said(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

-- The sum by its definition: over every value of every label.
local function summed(equation, ...)
  local left, right = equation:match '(.*)%->(.*)'
  local terms, sizes, order = {}, {}, {}
  for term in left:gmatch '[^,]+' do
    local x = select(#terms + 1, ...)
    terms[#terms + 1] = { x = x, labels = term }
    for i = 1, #term do
      local label = term:sub(i, i)
      if not sizes[label] then order[#order + 1] = label end
      sizes[label] = x:size(i)
    end
  end
  local result = {}
  local function go(k, at)
    if k > #order then
      local product, place = 1, 0
      for _, term in ipairs(terms) do
        local where = {}
        for i = 1, #term.labels do where[i] = at[term.labels:sub(i, i)] end
        product = product * term.x:get(unpack(where))
      end
      for i = 1, #right do
        local label = right:sub(i, i)
        place = place * sizes[label] + at[label] - 1
      end
      result[place + 1] = (result[place + 1] or 0) + product
      return
    end
    for v = 1, sizes[order[k]] do
      at[order[k]] = v
      go(k + 1, at)
    end
  end
  go(1, {})
  return result
end

describe('einsum', function()
  local a, b, c = ridge.randn(2, 3, 4), ridge.randn(2, 4, 5), ridge.randn(5, 3)
  for equation, given in pairs {
    ['bij,bjk->bik'] = { a, b }, ['bij,bjk->ikb'] = { a, b }, ['bij,bjk,ki->bj'] = { a, b, c },
    ['bij->j'] = { a }, ['bij->jib'] = { a }, ['bij,cjk->bc'] = { a, b }, ['bij,bjk->'] = { a, b },
    ['ij,kl->lijk'] = { c, c }, ['ki,ki->k'] = { c, c }, ['bjk,ki->bkij'] = { b, c } } do
    it('is what it says: ' .. equation, function()
      near(summed(equation, unpack(given)), numbers(ridge.einsum(equation, unpack(given))))
    end)
  end

  it('takes diagonals, axes without names, and what stands once', function()
    local x = ridge.arange(1, 8):reshape(2, 2, 2)
    assert.same({ 1, 4, 5, 8 }, numbers(ridge.einsum('...ii->...i', x)))
    assert.same({ 5, 13 }, numbers(ridge.einsum('...ii->...', x)))
    assert.equal(5, ridge.einsum('ii', x:select(1, 1)):item())
    assert.same({ 1, 3, 2, 4 }, numbers(ridge.einsum('ba', x:select(1, 1))))
    assert.same({ 2, 3, 5 }, ridge.einsum('...ij,...jk', a, b).shape)
    assert.same({ 7, 2, 3, 5 }, ridge.einsum('...ij,...jk->...ik', ridge.randn(7, 1, 3, 4), b)
      .shape)
    assert.equal(14, ridge.einsum('i,i', ridge.arange(1, 3, { dtype = 'i64' }),
      ridge.arange(1, 3, { dtype = 'i64' })):item())
  end)

  it('has gradients', function()
    local x, y = ridge.randn(2, 3):requires_grad_(), ridge.randn(3, 2):requires_grad_()
    ridge.einsum('ij,ji->', x, y):backward()
    near(numbers(y:detach():t()), numbers(x.grad))
    near(numbers(x:detach():t()), numbers(y.grad))
  end)

  it('says what is wrong with an equation', function()
    assert.matches("found_spec%.lua:%d+: einsum: 'ij,jk%->ik': more terms than tensors %(1%)",
      said(function() return ridge.einsum('ij,jk->ik', c) end))
    assert.matches("'i' names 1 axes, and the tensor has 2",
      said(function() return ridge.einsum('i', c) end))
    assert.matches("'j' is of size 3 and of size 5",
      said(function() return ridge.einsum('ij,jk->ik', c, c) end))
    assert.matches("'k' of the result stands in no term",
      said(function() return ridge.einsum('ij->k', c) end))
    assert.matches("a term has letters", said(function() return ridge.einsum('i?->i', c) end))
  end)
end)

describe('what is found', function()
  it('is positions, in order; nan is not 0', function()
    local x = ridge.tensor { { 0, 0 / 0, 0 }, { 2, 0, -1 } }
    local y = x:nonzero()
    assert.same({ 3, 2 }, y.shape)
    assert.same({ 0, 1, 1, 0, 1, 2 }, numbers(y))
    assert.same({ 0, 1 }, ridge.zeros(4):nonzero().shape)
    assert.same({ 1, 0 }, ridge.ones(1):reshape({}):nonzero().shape)
    assert.same({ 0, 1, 1, 0, 2, 1 }, numbers(x:t():nonzero()))
  end)

  it('is the parts that a condition holds for', function()
    local x = ridge.arange(1, 6):reshape(2, 3)
    local some = ridge.tensor({ 0, 1 }, { dtype = 'bool' })
    assert.same({ 2, 5 }, numbers(x:compress(some, 2)))
    assert.same({ 4, 5, 6 }, numbers(x:compress(some, 1)))
    assert.same({ 2 }, numbers(x:compress(some)))
    assert.matches('compress: the condition bool%[2%] is no list of at most 1',
      said(function() return ridge.ones(1):compress(some) end))
    for _, axis in ipairs { false, 1 } do -- of what is none, and of what is gone, by its own name
      local gone = ridge.ones(2, 3)
      gone:release()
      assert.matches('compress: a tensor is expected, got 5$',
        said(x.compress, 5, some, axis or nil))
      assert.matches('compress: the tensor f32%[2,3%] was released$',
        said(x.compress, gone, some, axis or nil))
    end
  end)

  it('is each value once', function()
    local values, first, inverse, counts = ridge.tensor({ 2, 1, 0 / 0, 2, -0, 0, 0 / 0 }):unique()
    assert.same({ 0, 1, 2 }, numbers(values:narrow(1, 1, 3)))
    assert.same({ 4, 1, 0, 2 }, numbers(first))
    assert.same({ 2, 1, 3, 2, 0, 0, 3 }, numbers(inverse))
    assert.same({ 2, 1, 2, 2 }, numbers(counts))
    values, first, inverse, counts = ridge.tensor({ 7, 3, 7, 5 }, { dtype = 'i32' }):unique {
      sorted = false }
    assert.same({ 7, 3, 5 }, numbers(values))
    assert.same({ 0, 1, 3 }, numbers(first))
    assert.same({ 0, 1, 0, 2 }, numbers(inverse))
    assert.same({ 2, 1, 1 }, numbers(counts))
    assert.same({ 0 }, ridge.zeros(0):unique().shape)
  end)

  it('is nothing that a plan can have', function()
    local x = ridge.ones(3)
    for _, f in ipairs { function() return x:nonzero() end, function() return x:unique() end } do
      assert.is_false((pcall(ridge.capture, f)))
    end
  end)
end)

describe('norms over channels', function()
  it('are those of each channel of each sample', function()
    local x = ridge.randn(2, 3, 4, 5) * 3 + 2
    local y = x:instance_norm { weight = ridge.tensor { 1, 2, 3 }, bias = ridge.tensor { 0, 1, 2 } }
    local part = y[{ 2, 3 }]
    assert.is_true(math.abs(part:mean():item() - 2) < 1e-4)
    assert.is_true(math.abs((part - 2):square():mean():item() - 9) < 1e-2)
  end)

  it('look at neighbouring channels, one more behind', function()
    local x = ridge.arange(1, 5):reshape(1, 5, 1)
    local wanted = {}
    for i = 1, 5 do
      local sum = 0
      for k = i - 1, i + 2 do sum = sum + ((k >= 1 and k <= 5) and k * k or 0) end
      wanted[i] = i / (2 + 0.5 * sum / 4) ^ 0.75
    end
    near(wanted, numbers(x:lrn(4, { alpha = 0.5, bias = 2 })))
  end)
end)

-- Compiled Lua code looks at no hook: what goes over elements there asks for Ctrl-C by itself.
describe('Ctrl-C in a loop over elements', function()
  local C = require 'ridge.ffi.lib'
  local call = require 'ridge.ffi.call'
  local look = call.look

  after_each(function()
    call.look = look
    C.rg_interrupt_clear()
  end)

  -- Press at the look with this number; how many there were.
  local function pressed_at(n, f, ...)
    local seen = 0
    call.look = function(what)
      seen = seen + 1
      if seen == n then C.rg_interrupt_set() end
      return look(what)
    end
    local ok, e = pcall(f, ...)
    call.look = look
    C.rg_interrupt_clear()
    return seen, ok or e.message
  end

  local function ends(name, least, f, ...)
    local seen, whole = pressed_at(0, f, ...)
    assert.is_true(whole)
    assert.is_true(seen >= least, ('%s: %d looks'):format(name, seen))
    for at = math.max(1, seen - least + 1), seen do
      assert.matches('interrupted', select(2, pressed_at(at, f, ...)))
    end
  end

  it('ends it between two stretches', function()
    local n = 2 * call.STRETCH + 1
    local x = ridge.arange(1, n)
    ends('nonzero', 6, x.nonzero, x)
    ends('unique', 3, x.unique, x)
    ends('a histogram', 3, function()
      require('ridge.quant.histogram').new():add(x, n)
    end)
    assert.equal(n, x:unique().count)
    assert.equal(n, x:nonzero():size(1))
  end)

  it('ends the factor of a matrix of moments between two rows', function()
    local moments = require('ridge.quant.second_moment').new(5)
    moments:add(ridge.randn(9, 5))
    ends('gptq', 10, require('ridge.quant.gptq').round, ridge.randn(2, 5), moments,
      { bits = 4, group = 5, minimum = false, search = false })
  end)
end)
