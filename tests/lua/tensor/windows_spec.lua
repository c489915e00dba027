-- SPDX-License-Identifier: MIT
--- Convolutions and pooling over one to three axes, against plain loops.

local ridge = require 'ridge'

local function numbers(x)
  local list = {}
  x = x:contiguous():reshape(-1)
  for i = 1, x.count do list[i] = x:get(i) end
  return list
end

local function product(list)
  local n = 1
  for _, v in ipairs(list) do n = n * v end
  return n
end

-- Each tuple of positions below the sizes, from 0.
local function tuples(sizes)
  local list, n = {}, product(sizes)
  for i = 0, n - 1 do
    local rest, at = i, {}
    for k = #sizes, 1, -1 do
      at[k] = rest % sizes[k]
      rest = math.floor(rest / sizes[k])
    end
    list[i + 1] = at
  end
  return list
end

-- The element at {n, c, axes ...} from 0, nil outside.
local function reader(x)
  local shape, list = x:size(), numbers(x)
  return function(at)
    local place = 0
    for k = 1, #shape do
      if at[k] < 0 or at[k] >= shape[k] then return nil end
      place = place * shape[k] + at[k]
    end
    return list[place + 1]
  end
end

local function near(wanted, y, what)
  local got = numbers(y)
  assert.equal(#wanted, #got, what)
  for i, v in ipairs(wanted) do
    assert.is_true(math.abs(v - got[i]) <= 1e-4 * math.max(1, math.abs(v)),
      ('%s: element %d is %g, wanted %g'):format(what or '', i, got[i], v))
  end
end

-- In one group, from the definition: y[o, i] = sum x[c, i s + p d - low] w[o, c, p].
local function convolved(x, w, o)
  local d, read, weight = x.ndim - 2, reader(x), reader(w)
  local sizes, k = { x:size(1), w:size(1) }, { w:size(2) }
  for i = 1, d do
    k[i + 1] = w:size(i + 2)
    sizes[i + 2] = math.floor((x:size(i + 2) + o.low[i] + o.high[i]
      - o.dilation[i] * (k[i + 1] - 1) - 1) / o.stride[i]) + 1
  end
  local y = {}
  for _, at in ipairs(tuples(sizes)) do
    local sum = 0
    for _, p in ipairs(tuples(k)) do
      local from, of = { at[1], p[1] }, { at[2], p[1] }
      for i = 1, d do
        from[i + 2] = at[i + 2] * o.stride[i] + p[i + 1] * o.dilation[i] - o.low[i]
        of[i + 2] = p[i + 1]
      end
      sum = sum + (read(from) or 0) * weight(of)
    end
    y[#y + 1] = sum
  end
  return y, sizes
end

-- Each element of x spread over what it reaches: y[o, i s + p d - low] += x[c, i] w[c, o, p].
local function transposed(x, w, o)
  local d, read, weight = x.ndim - 2, reader(x), reader(w)
  local sizes = { x:size(1), w:size(2) }
  for i = 1, d do
    sizes[i + 2] = (x:size(i + 2) - 1) * o.stride[i] - o.low[i] - o.high[i]
      + o.dilation[i] * (w:size(i + 2) - 1) + 1 + o.more[i]
  end
  local y = {}
  for i = 1, product(sizes) do y[i] = 0 end
  for _, at in ipairs(tuples(x:size())) do
    for _, p in ipairs(tuples(w:size())) do
      local place, inside = at[1] * sizes[2] + p[2], p[1] == at[2]
      for i = 1, d do
        local to = at[i + 2] * o.stride[i] + p[i + 2] * o.dilation[i] - o.low[i]
        inside = inside and to >= 0 and to < sizes[i + 2]
        place = place * sizes[i + 2] + to
      end
      if inside then y[place + 1] = y[place + 1] + read(at) * weight(p) end
    end
  end
  return y, sizes
end

local CASES = {
  { x = { 2, 3, 9 }, w = { 4, 3, 3 }, stride = { 2 }, dilation = { 2 }, low = { 1 }, high = { 2 } },
  { x = { 1, 2, 7, 6 }, w = { 3, 2, 3, 2 }, stride = { 2, 1 }, dilation = { 1, 2 }, low = { 1, 0 },
    high = { 0, 1 } },
  { x = { 2, 2, 5, 4, 6 }, w = { 3, 2, 2, 3, 2 }, stride = { 2, 1, 2 }, dilation = { 2, 1, 1 },
    low = { 1, 1, 0 }, high = { 2, 0, 1 } },
}

local function pairs_of(case)
  local list = {}
  for i = 1, #case.low do list[i] = { case.low[i], case.high[i] } end
  return list
end

describe('conv', function()
  for _, case in ipairs(CASES) do
    it(('is what it says over %d axes'):format(#case.stride), function()
      local x, w = ridge.randn(case.x), ridge.randn(case.w)
      local wanted, shape = convolved(x, w, case)
      local opts = { stride = case.stride, dilation = case.dilation, padding = pairs_of(case) }
      local y = x:conv(w, opts)
      assert.same(shape, y.shape)
      near(wanted, y)
      opts.bias = ridge.arange(1, case.w[1])
      near(numbers(y:sum { 1, unpack({ 3, 4, 5 }, 1, #case.stride) } + opts.bias * y.count
        / case.w[1]), x:conv(w, opts):sum { 1, unpack({ 3, 4, 5 }, 1, #case.stride) })
    end)
  end

  it('falls into groups', function()
    local x, w = ridge.randn(1, 4, 3, 5, 5), ridge.randn(6, 2, 2, 3, 3)
    local y = x:conv(w, { groups = 2 })
    local first = x:narrow(2, 1, 2):conv(w:narrow(1, 1, 3))
    near(numbers(first), y:narrow(2, 1, 3))
  end)

  it('says what does not fit', function()
    local ok, err = pcall(function() return ridge.ones(2, 2):conv(ridge.ones(2, 2)) end)
    assert.is_false(ok)
    assert.matches('windows_spec%.lua:%d+: conv: x is f32%[2,2%], wanted %[n x c x 1 to 3 axes%]',
      tostring(err))
    ok, err = pcall(function()
      return ridge.ones(1, 1, 4):conv(ridge.ones(1, 1, 2), { stride = { 1, 2 } })
    end)
    assert.is_false(ok)
    assert.matches('conv: stride is .* expected a whole number from 1, or a list of 1',
      tostring(err))
  end)
end)

describe('conv_transpose', function()
  for _, case in ipairs(CASES) do
    for _, more in ipairs { 0, 1, 2 } do
      it(('is what it says over %d axes, with %d more'):format(#case.stride, more), function()
        local x = ridge.randn(case.x)
        local w = ridge.randn(case.w):transpose(1, 2):contiguous()
        if w:size(1) ~= x:size(2) then w = w:transpose(1, 2):contiguous() end
        local o = { stride = case.stride, dilation = case.dilation, low = case.low,
          high = case.high, more = {} }
        for i = 1, #case.stride do o.more[i] = more end
        local wanted, shape = transposed(x, w, o)
        local y = x:conv_transpose(w, { stride = o.stride, dilation = o.dilation,
          padding = pairs_of(o), output_padding = more })
        assert.same(shape, y.shape)
        near(wanted, y)
      end)
    end
  end

  it('of images has groups, a bias, and gradients of all', function()
    local x, w = ridge.randn(1, 4, 3, 3):requires_grad_(), ridge.randn(4, 2, 2, 2):requires_grad_()
    local b = ridge.randn(4):requires_grad_()
    local y = x:conv_transpose(w, { groups = 2, stride = 2, bias = b })
    assert.same({ 1, 4, 6, 6 }, y.shape)
    local first = x:detach():narrow(2, 1, 2):conv_transpose(w:detach():narrow(1, 1, 2),
      { stride = 2 }) + b:detach():narrow(1, 1, 2):reshape(1, 2, 1, 1)
    near(numbers(first), y:detach():narrow(2, 1, 2))
    y:sum():backward()
    near({ 36, 36, 36, 36 }, b.grad)
    near(numbers(w:detach():sum { 2, 3, 4 }), x.grad[{ 1, {}, 1, 1 }])
    near(numbers(x:detach():sum { 1, 3, 4 }), w.grad[{ {}, 1, 1, 1 }])
  end)

  it('is a layer, which learns and is saved', function()
    local net = ridge.nn.ConvTranspose2d(3, 2, { 2, 3 }, { stride = 2, seed = 1 })
    local x = ridge.randn(2, 3, 4, 4)
    near(numbers(x:conv_transpose(net.weight:detach(), { stride = 2, bias = net.bias:detach() })),
      net(x):detach())
    net(x):square():mean():backward()
    assert.is_true(net.weight.grad:abs():sum():item() > 0)
    local other = ridge.nn.ConvTranspose2d(3, 2, { 2, 3 }, { stride = 2, seed = 2 })
    other:load_state(net:state())
    near(numbers(net(x):detach()), other(x):detach())
    assert.equal('nn.ConvTranspose2d(3 -> 2, 2x3, f32, 38 parameters)', tostring(net))
    local ok, err = pcall(ridge.nn.ConvTranspose2d, 3, 2, 2, { groups = 2 })
    assert.is_false(ok)
    assert.matches('3 channels in and 2 out do not fall into 2 groups', tostring(err))
  end)
end)

-- What a window of each result has: f gets the elements, nil for padding, false for what is behind
-- it.
local function pooled(x, o, f)
  local d, read = x.ndim - 2, reader(x)
  local sizes = { x:size(1), x:size(2) }
  for i = 1, d do
    local all, reach = x:size(i + 2) + o.low[i] + o.high[i], o.dilation[i] * (o.k[i] - 1) + 1
    local n = 0
    while n * o.stride[i] + (o.ceil and 1 or reach) <= all
      and n * o.stride[i] < x:size(i + 2) + o.low[i]
      and (n == 0 or (n - 1) * o.stride[i] + reach < all or not o.ceil) do
      n = n + 1
    end
    sizes[i + 2] = n
  end
  local y = {}
  for _, at in ipairs(tuples(sizes)) do
    local list = {}
    for j, p in ipairs(tuples(o.k)) do
      local from, behind = { at[1], at[2] }, false
      for i = 1, d do
        from[i + 2] = at[i + 2] * o.stride[i] + p[i] * o.dilation[i] - o.low[i]
        behind = behind or from[i + 2] >= x:size(i + 2) + o.high[i]
      end
      list[j] = read(from) or (not behind and 'padding' or 'behind')
    end
    y[#y + 1] = f(list)
  end
  return y, sizes
end

local function largest(list)
  local most = -math.huge
  for _, v in ipairs(list) do most = type(v) == 'number' and math.max(most, v) or most end
  return most
end

local function average(counted)
  return function(list)
    local sum, n = 0, 0
    for _, v in ipairs(list) do
      sum = sum + (type(v) == 'number' and v or 0)
      n = n + ((type(v) == 'number' or v == 'padding' and counted) and 1 or 0)
    end
    return sum / n
  end
end

local function length(list)
  local sum = 0
  for _, v in ipairs(list) do sum = sum + (type(v) == 'number' and v * v or 0) end
  return math.sqrt(sum)
end

local POOLS = {
  { x = { 2, 2, 9 }, k = { 3 }, stride = { 2 }, dilation = { 1 }, low = { 1 }, high = { 1 } },
  { x = { 1, 2, 8 }, k = { 3 }, stride = { 3 }, dilation = { 1 }, low = { 0 }, high = { 1 } },
  { x = { 1, 2, 10 }, k = { 3 }, stride = { 2 }, dilation = { 2 }, low = { 1 }, high = { 1 } },
  { x = { 1, 3, 7, 6 }, k = { 2, 3 }, stride = { 2, 2 }, dilation = { 1, 1 }, low = { 0, 1 },
    high = { 1, 0 } },
  { x = { 1, 2, 8, 9 }, k = { 2, 3 }, stride = { 3, 2 }, dilation = { 2, 1 }, low = { 1, 1 },
    high = { 0, 1 } },
  { x = { 1, 2, 5, 6, 4 }, k = { 2, 3, 2 }, stride = { 2, 2, 1 }, dilation = { 1, 1, 1 },
    low = { 1, 0, 1 }, high = { 0, 1, 0 } },
}

describe('pooling', function()
  for n, case in ipairs(POOLS) do
    for _, ceil in ipairs { false, true } do
      it(('is what it says: %d, %s'):format(n, ceil and 'rounded up' or 'rounded down'), function()
        local x = ridge.randn(case.x)
        local o = { stride = case.stride, dilation = case.dilation, padding = pairs_of(case),
          ceil_mode = ceil }
        case.ceil = ceil
        local wanted, shape = pooled(x, case, largest)
        local y = x:max_pool(case.k, o)
        assert.same(shape, y.shape)
        near(wanted, y, 'max')
        near((pooled(x, case, length)), x:lp_pool(case.k, o), 'norm')
        for _, counted in ipairs { true, false } do
          o.count_padding = counted
          near((pooled(x, case, average(counted))), x:avg_pool(case.k, o), 'average')
        end
      end)
    end
  end

  it('says where in its plane each of the largest is', function()
    for _, case in ipairs(POOLS) do
      local x = ridge.randint(0, 3, unpack(case.x)):to 'f32'
      local read, d, all = reader(x), #case.k, 1
      for i = 1, d do all = all * case.x[i + 2] end
      case.ceil = false
      local wanted = pooled(x, case, largest)
      local y, at = x:max_pool(case.k, { stride = case.stride, dilation = case.dilation,
        padding = pairs_of(case), indices = true })
      near(wanted, y)
      local places, sizes = numbers(at), y:size()
      assert.equal('i64', at.dtype)
      for n, result in ipairs(tuples(sizes)) do
        -- the first element of the window that is as large
        local first
        for _, p in ipairs(tuples(case.k)) do
          local from, place = { result[1], result[2] }, 0
          for i = 1, d do
            from[i + 2] = result[i + 2] * case.stride[i] + p[i] * case.dilation[i] - case.low[i]
            place = place * case.x[i + 2] + from[i + 2]
          end
          if not first and read(from) == wanted[n] then first = place end
        end
        assert.equal(first, places[n])
      end
    end
    local _, at = ridge.tensor({ 0 / 0, 1, -math.huge, -math.huge }):reshape(1, 1, 4):max_pool(2,
      { indices = true })
    assert.same({ 0, 2 }, numbers(at))
    _, at = ridge.full(-math.huge, 1, 1, 2):max_pool(2, { padding = 1, stride = 1,
      indices = true })
    assert.same({ 0, 0, 1 }, numbers(at))
  end)

  it('has gradients, whole numbers, and nan that wins', function()
    local x = ridge.arange(0, 7):reshape(1, 1, 8):requires_grad_()
    x:max_pool(2, { dilation = 2, stride = 1 }):sum():backward()
    assert.same({ 0, 0, 1, 1, 1, 1, 1, 1 }, numbers(x.grad))
    local whole = ridge.arange(-4, 3, { dtype = 'i8' }):reshape(1, 1, 8):max_pool(3)
    assert.same({ -2, 1 }, numbers(whole))
    assert.equal('i8', whole.dtype)
    local y = ridge.tensor({ 1, 0 / 0, 3, 4 }):reshape(1, 1, 4):max_pool(2, { dilation = 2,
      stride = 1 })
    assert.is_true(y:get(1, 1, 2) ~= y:get(1, 1, 2))
  end)

  -- the last window reaches one element behind it all, which does not count
  it('averages over padding that is not the same on both sides', function()
    local x = ridge.arange(1, 5):reshape(1, 1, 5)
    local function of(before, behind)
      return numbers(x:avg_pool(3, { stride = 2, padding = { { before, behind } },
        ceil_mode = true }))
    end
    assert.same({ 1, 3, 4.5 }, of(1, 0))
    assert.same({ 2, 4, 2.5 }, of(0, 1))
  end)

  it('compares whole numbers of 64 bits that f64 does not hold', function()
    local most = ridge.tensor({ { { 2 ^ 53, 0, -3 } } }, { dtype = 'i64' })
      + ridge.tensor({ { { 1, 0, 0 } } }, { dtype = 'i64' })
    local y, at = most:max_pool(2, { stride = 1, indices = true })
    assert.same({ 1, 0 }, numbers(y - 2 ^ 53 * (y:gt(1):to 'i64')))
    assert.same({ 0, 1 }, numbers(at))
    assert.same({ -3 }, numbers(most:narrow(3, 3, 1):max_pool(3, { padding = 1 })))
  end)
end)

describe('convolutions over three axes', function()
  it('are of nothing where the batch is', function()
    local x = ridge.zeros(0, 2, 5, 5, 5)
    assert.same({ 0, 4, 3, 3, 3 }, x:conv(ridge.ones(4, 2, 3, 3, 3)).shape)
    assert.same({ 0, 4, 7, 7, 7 }, x:conv_transpose(ridge.ones(2, 4, 3, 3, 3)).shape)
  end)
end)

describe('a bias of a transposed convolution', function()
  it('has a number for each channel, and does not broadcast', function()
    for d = 1, 3 do
      local x, w = { 1, 2 }, { 2, 3 }
      for i = 1, d do x[i + 2], w[i + 2] = 3, 2 end
      for _, bias in ipairs { ridge.ones(1), ridge.ones(4), ridge.ones(3, 1), ridge.ones(6) } do
        assert.error_matches(function()
          return (ridge.ones(x):conv_transpose(ridge.ones(w), { bias = bias }))
        end, 'windows_spec%.lua:%d+: conv_transpose: the bias is f32%[[%d,]+%], wanted %[3%]')
      end
    end
  end)
end)

describe('a kernel without elements', function()
  it('is refused, over one to three axes', function()
    for d = 1, 3 do
      local x = { 1, 2 }
      for i = 1, d do x[i + 2] = 3 end
      for axis = 1, d + 2 do
        local w = { 2, 2 }
        for i = 1, d do w[i + 2] = 2 end
        w[axis] = 0
        for _, name in ipairs { 'conv', 'conv_transpose' } do
          local input, kernel = ridge.ones(x), ridge.ones(w)
          assert.error_matches(function() return (input[name](input, kernel)) end,
            'windows_spec%.lua:%d+: ' .. name .. ': the kernel f32%[[%d,]+%] has nothing in it')
        end
      end
    end
  end)
end)

describe('a size over rows and one over columns', function()
  local pair = require 'ridge.tensor.settings'.pair

  it('are whole numbers from the least one to the largest of 32 bits', function()
    assert.same({ 3, 3 }, { pair(3, 'f', 'stride', 1) })
    assert.same({ 1, 2 ^ 31 - 1 }, { pair({ 1, 2 ^ 31 - 1 }, 'f', 'stride', 1) })
    assert.same({ 0, 0 }, { pair(0, 'f', 'padding', 0) })
    for _, wrong in ipairs { 0, 1.5, 2 ^ 31, -1, { 1, 2 ^ 31 }, { 0, 1 }, { 1 }, { 1, 2, 3 } } do
      local ok, err = pcall(pair, wrong, 'f', 'stride', 1)
      assert.is_false(ok)
      assert.matches('^f: stride is .*; expected a whole number from 1, or {rows, columns}',
        err.message)
    end
  end)
end)
