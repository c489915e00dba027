-- SPDX-License-Identifier: MIT
-- Layers for images, as a user makes them; the operations themselves are in tests/op.
local ridge = require 'ridge'
local ffi = require 'ffi'
local nn = ridge.nn

ffi.cdef [[
typedef struct { size_t counts[7], used, free, top; } image_spec_heap;
image_spec_heap image_spec_heap_now(void) __asm__("mallinfo2");
]]

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

describe('nn.Conv2d', function()
  it('refuses a kernel that reaches beyond all that can be counted', function()
    local ok, e = pcall(function()
      -- (2^34 + 1 - 1) 2^30 is 0 in 64 bits
      local w = ridge.ones(1, 1, 1, 1):expand(1, 1, 2 ^ 34 + 1, 1)
      return ridge.ones(1, 1, 4, 4):conv2d(w, { dilation = { 2 ^ 30, 1 } })
    end)
    assert.is_false(ok)
    assert.equal('ESHAPE', e.code)
    assert.matches('does not fit into f32%[1,1,4,4%]', e.message)
  end)

  it('is conv2d with its weight and bias, and the same for the same seed', function()
    local layer = nn.Conv2d(3, 4, { 3, 2 }, { stride = 2, padding = { 1, 0 }, seed = 4 })
    local x = ridge.randn(2, 3, 7, 6)
    local y = x:conv2d(layer.weight, { bias = layer.bias, stride = 2, padding = { 1, 0 } })
    assert.same({ 2, 4, 4, 3 }, y:size())
    assert.is_true(layer(x):equal(y))
    assert.is_true(layer.weight:equal(nn.Conv2d(3, 4, { 3, 2 }, { seed = 4 }).weight))
    assert.is_nil(nn.Conv2d(1, 1, 1, { bias = false }).bias)
  end)

  it('has gradients of its weight in f64, too, that are sums of products', function()
    -- rows and columns of different strides, steps and borders; small whole numbers, so exact
    local o = { stride = { 2, 1 }, padding = { 1, 0 }, dilation = { 1, 2 } }
    local function numbers(n)
      local list = {}
      for i = 1, n do list[i] = i * 7 % 11 - 5 end
      return list
    end
    local xs, dys = numbers(2 * 6 * 5), numbers(2 * 4 * 3)
    local x = ridge.tensor(xs, { dtype = 'f64' }):view(2, 1, 6, 5)
    local w = ridge.zeros(1, 1, 2, 2, { dtype = 'f64' }):requires_grad_()
    local y = x:conv2d(w, o)
    assert.same({ 2, 1, 4, 3 }, y.shape)
    ;(y * ridge.tensor(dys, { dtype = 'f64' }):view(2, 1, 4, 3)):sum():backward()
    local sums = { 0, 0, 0, 0 }
    for at = 0, 2 * 4 * 3 - 1 do -- each result, and each of the four places it read
      local n, i, j = math.floor(at / 12), math.floor(at / 3) % 4, at % 3
      for place = 0, 3 do
        local row, column = 2 * i + math.floor(place / 2) - 1, j + 2 * (place % 2)
        if row >= 0 and row < 6 then
          sums[place + 1] = sums[place + 1] + xs[n * 30 + row * 5 + column + 1] * dys[at + 1]
        end
      end
    end
    assert.same(sums, w.grad:view(-1):tolist())
  end)

  it('reads a bias wherever it lies, and leaves it as it is', function()
    local all = ridge.arange(1, 8)
    local bias = all:narrow(1, 1, 4, 2) -- 1, 3, 5, 7
    local y = ridge.zeros(1, 2, 3, 3):conv2d(ridge.randn(4, 2, 1, 1), { bias = bias })
    for channel, v in ipairs { 1, 3, 5, 7 } do
      assert.same({ { v, v, v }, { v, v, v }, { v, v, v } }, y:tolist()[1][channel])
    end
    assert.same({ 1, 2, 3, 4, 5, 6, 7, 8 }, all:tolist())
  end)

  it('says which gradient fits no kernel', function()
    local C = require 'ridge.ffi.lib'
    local call = require 'ridge.ffi.call'
    local function gradient(x, dy)
      local o = ffi.new 'rg_conv2d_options'
      o.stride[0], o.stride[1], o.dilation[0], o.dilation[1], o.groups = 1, 1, 1, 1, 1
      local dw, db = ffi.new 'rg_tensor *[1]', ffi.new 'rg_tensor *[1]'
      call.check(C.rg_conv2d_back_weight(x._t, dy._t, 3, 3, o, dw, db))
    end
    assert.matches('x is f32%[1,1,4,4%] and dy f32%[1,1,9,9%], which no kernel of 3 by 3 joins',
      message(gradient, ridge.ones(1, 1, 4, 4), ridge.ones(1, 1, 9, 9)))
    assert.matches('x is f32%[1,0,4,4%] and dy', message(gradient, ridge.ones(1, 0, 4, 4),
      ridge.ones(1, 1, 2, 2)))
  end)

  it('begins as PyTorch does: uniform in 1 over the root of what flows into a place', function()
    local weight = nn.Conv2d(16, 64, 3, { seed = 1 }).weight
    local bound = 1 / math.sqrt(16 * 9)
    assert.is_true(weight:abs():max():item() <= bound)
    assert.near(bound / math.sqrt(3), weight:square():mean():sqrt():item(), 0.03 * bound)
  end)

  it('takes four numbers as padding, and no table among them', function()
    local x, four = ridge.ones(1, 1, 4, 4), { 1, { 1, 1 }, 1, 1 }
    for name, f in pairs { conv2d = function() return x:conv2d(x, { padding = four }) end,
      ['nn.Conv2d'] = function() return nn.Conv2d(1, 1, 3, { padding = four }) end,
      max_pool2d = function() return x:max_pool2d(2, { padding = four }) end } do
      assert.matches(name .. ': padding {top, left, bottom, right} is of numbers, got a table',
        message(f), 1, true)
    end
  end)

  it("keeps the size with padding 'same', for odd and even kernels and dilations", function()
    for _, kernel in ipairs { 1, 2, 3, 4, 5 } do
      local layer = nn.Conv2d(1, 2, kernel, { padding = 'same', dilation = 2 })
      assert.same({ 1, 2, 9, 8 }, layer(ridge.randn(1, 1, 9, 8)):size())
    end
    assert.same({ 1, 2, 9, 8 }, ridge.ones(1, 1, 9, 8):conv2d(ridge.ones(2, 1, 3, 5),
      { padding = 'same' }):size())
  end)

  it('pools each plane as if it were alone, also where several threads share them', function()
    local x = ridge.randn(256, 1, 32, 32)
    local all, same = x:max_pool2d(2), 0
    for i = 1, 256 do
      local one = x:narrow(1, i, 1)
      if all:narrow(1, i, 1):equal(one:max_pool2d(2)) then same = same + 1 end
    end
    assert.equal(256, same)
    -- the corner of a plane by hand
    local corner = x[{ 7, 1 }]:narrow(1, 1, 2):narrow(2, 1, 2)
    assert.equal(corner:max():item(), all[{ 7, 1, 1, 1 }]:item())
  end)

  it('gives a gradient to the first of equal ones, and to the first nan', function()
    local nan, list, due = 0 / 0, {}, {}
    local windows = { { 1, 1, due = 1 }, { nan, nan, due = 1 }, { 3, nan, due = 2 },
      { nan, 3, due = 1 }, { -1 / 0, -1 / 0, due = 1 }, { 0, -0.0, due = 1 }, { 1, 2, due = 2 } }
    for i = 1, 37 do -- wider than a vector, and no whole number of them
      local w = windows[i % 7 + 1]
      for k = 1, 2 do list[#list + 1], due[#due + 1] = w[k], w.due == k and 1 or 0 end
    end
    for _, dtype in ipairs { 'f32', 'f64' } do
      local x = ridge.tensor(list, { dtype = dtype }):reshape(1, 1, 1, 74):requires_grad_()
      x:max_pool2d({ 1, 2 }):backward(ridge.ones(1, 1, 1, 37, { dtype = dtype }))
      assert.same(due, x.grad:reshape(74):tolist())
      -- and as 37 channels of an image of two rows
      local last = x:detach():reshape(37, 2):transpose(1, 2):clone():reshape(1, 2, 1, 37)
      last:requires_grad_():max_pool2d({ 2, 1 }, { layout = 'nhwc' }):backward(ridge.ones(1, 1, 1,
        37, { dtype = dtype }))
      assert.same(due, last.grad:reshape(2, 37):transpose(1, 2):clone():reshape(74):tolist())
    end
  end)

  it('pads a pooled image by less than a window, on each side', function()
    local x = ridge.ones(1, 1, 4, 4)
    for side = 1, 4 do
      local padding = { 0, 0, 0, 0 }
      padding[side] = 2
      assert.matches('for a window of 2; it has to be smaller', message(x.max_pool2d, x, 2,
        { padding = padding }))
      padding[side] = 1
      assert.equal(1, x:max_pool2d(2, { padding = padding }):max():item())
    end
  end)

  it('takes groups, and channels last', function()
    local layer = nn.Conv2d(4, 8, 3, { groups = 4, seed = 1, activation = 'relu' })
    assert.same({ 8, 1, 3, 3 }, layer.weight:size())
    local x = ridge.randn(2, 4, 6, 5)
    local last = nn.Conv2d(4, 8, 3, { groups = 4, seed = 1, activation = 'relu',
      layout = 'nhwc' })
    local y = last(x:permute(1, 3, 4, 2)):permute(1, 4, 2, 3)
    assert.is_true(layer(x):allclose(y, 1e-5, 1e-6))
  end)

  it('trains, clones and converts', function()
    local layer = nn.Conv2d(2, 3, 3):train()
    layer(ridge.randn(1, 2, 5, 5)):sum():backward()
    assert.same({ 3, 2, 3, 3 }, layer.weight.grad:size())
    assert.same({ 9, 9, 9 }, layer.bias.grad:tolist())
    local copy = layer:clone()
    ridge.no_grad(function() copy.weight:zero_() end)
    assert.is_false(layer.weight:equal(copy.weight))
    assert.matches('nn.Conv2d%(2 %-> 3, 3x3, bf16, 57 parameters%)', tostring(copy:to 'bf16'))
    assert.equal(57, (nn.Sequential(layer):num_parameters()))
  end)

  it('says what does not fit', function()
    assert.matches('the kernel is 0', message(nn.Conv2d, 1, 1, 0))
    assert.matches('do not fall into 2 groups', message(nn.Conv2d, 3, 4, 1, { groups = 2 }))
    assert.matches("the only word for it is 'same'", message(nn.Conv2d, 1, 1, 3,
      { padding = 'valid' }))
    assert.matches('in nn.Conv2d', message(nn.Conv2d(3, 4, 3), ridge.randn(1, 2, 5, 5)))
  end)

  it('gives back what it took to arrange a weight anew', function()
    local layer, x, before = nn.Conv2d(16, 16, 3):eval(), ridge.randn(2, 16, 8, 8)
    for i = 1, 110 do
      ridge.no_grad(function() layer.weight:fill_(i) end)
      ridge.inference(layer, x)
      collectgarbage()
      if i == 10 then before = tonumber(ffi.C.image_spec_heap_now().used) end
    end
    -- what oneDNN makes for one conversion is several hundred bytes
    assert.is_true(tonumber(ffi.C.image_spec_heap_now().used) - before < 100 * 300)
  end)
end)

describe('pooling', function()
  it('finds the same places with every instruction set, however many windows are side by side',
    function()
      local before = ridge.backend.now().isa
      local want, n = {}, 0
      -- one nan; places by the gradient
      local function results(dtype, layout, c, stride)
        ridge.seed(c)
        local x = (layout == 'nhwc' and ridge.randn(1, 5, 6, c)
          or ridge.randn(1, 2, 5, c + 4)):to(dtype)
        x:narrow(2, 2, 1):narrow(3, 2, 1):narrow(4, 1, 1):fill_(0 / 0)
        x:requires_grad_()
        local y = x:max_pool2d(3, { stride = stride, padding = 1, layout = layout })
        y:backward(ridge.arange(1, y.count):to(dtype):reshape(unpack(y.shape)))
        return table.concat(y:detach():reshape(y.count):tolist(), ' '):gsub('%-nan', 'nan')
          .. ';' .. table.concat(x.grad:reshape(x.count):tolist(), ' ')
      end
      for _, isa in ipairs { 'base', 'avx2', 'avx512' } do
        if not pcall(ridge.backend.set_isa, isa) then break end
        for _, dtype in ipairs { 'f32', 'f64' } do
          for _, layout in ipairs { 'nchw', 'nhwc' } do
            for c = 1, 21 do
              for stride = 1, 3 do
                local key = ('%s %s %d %d'):format(dtype, layout, c, stride)
                local got = results(dtype, layout, c, stride)
                want[key] = want[key] or got
                assert.equal(want[key], got, isa .. ' ' .. key)
                n = n + 1
              end
            end
          end
        end
      end
      ridge.backend.set_isa(before)
      assert.is_true(n >= 252)
    end)

  it('takes the largest or the average of windows, and gives the gradient to where it was',
  function()
    local x = ridge.tensor({ { { { 1, 2 }, { 4, 3 } } } }):requires_grad_()
    assert.equal(4, nn.MaxPool2d(2)(x):item())
    assert.equal(2.5, nn.AvgPool2d(2)(x):item())
    nn.MaxPool2d(2)(x):backward()
    assert.same({ { { { 0, 0 }, { 1, 0 } } } }, x.grad:tolist())
  end)

  it('takes the first nan of a window for its largest, alone and in vectors', function()
    for _, n in ipairs { 1, 5, 20 } do
      local x = ridge.zeros(1, 1, 2, 2 * n)
      for i = 1, 2 * n do x[1][1][2][i] = 0 / 0 end
      x:requires_grad_():max_pool2d(2):sum():backward()
      for i = 1, 2 * n do
        assert.equal(0, x.grad[1][1][1][i]:item())
        assert.equal(i % 2, x.grad[1][1][2][i]:item())
      end
    end
  end)

  it('steps by its size unless told otherwise', function()
    assert.same({ 1, 1, 2, 3 }, nn.MaxPool2d({ 3, 2 })(ridge.randn(1, 1, 6, 6)):size())
    assert.same({ 1, 1, 4, 4 }, nn.MaxPool2d(3, { stride = 1 })(ridge.randn(1, 1, 6, 6)):size())
    assert.matches('the size is 0', message(nn.MaxPool2d, 0))
  end)

  it('is followed by rows', function()
    assert.same({ 2, 12 }, nn.Flatten()(ridge.randn(2, 3, 2, 2)):size())
    for _, x in ipairs { 5, 'x', { 1 }, false } do
      local ok, err = pcall(nn.Flatten(), x)
      assert.same({ false, 'EARG' }, { ok, err.code })
      assert.matches('^nn.Flatten: ', err.message)
    end
  end)
end)

describe('under autocast', function()
  it('a gradient of f32 is not rounded to bf16 on its way', function()
    local layer, x = nn.Linear(64, 64, { seed = 1 }):train(), ridge.randn(32, 64):requires_grad_()
    ridge.autocast('bf16', layer, x):square():sum():backward()
    local lower, dx = layer.weight.grad:clone(), x.grad:clone()
    layer.weight:zero_grad()
    x:zero_grad()
    layer(x):square():sum():backward()
    for _, pair in ipairs { { lower, layer.weight.grad }, { dx, x.grad } } do
      local off = (pair[1] - pair[2]):norm():item() / pair[2]:norm():item()
      assert.is_true(off > 0 and off < 0.01, off)
      assert.is_false(pair[1]:equal(pair[1]:to('bf16'):to('f32')))
    end
  end)
end)
