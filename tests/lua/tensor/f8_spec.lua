-- SPDX-License-Identifier: MIT
--- The 8-bit floats from Lua: what is stored, what a program may do with it, and what it is told
--- when it wants to compute.

local ffi = require 'ffi'
local ridge = require 'ridge'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e
end

local E4M3, E5M2 = { dtype = 'f8e4m3' }, { dtype = 'f8e5m2' }
local INF = math.huge

describe('8-bit floats', function()
  it('hold the numbers of the standard', function()
    assert.same({ 448, -448, 0.001953125, 0, 1.125 },
      ridge.tensor({ 448, -450, 0.0015, 0.0009, 1.1 }, E4M3):tolist())
    assert.same({ 57344, INF, -INF, 2 ^ -16, 1.25 },
      ridge.tensor({ 60000, 61440, -1e9, 0x1.8p-17, 1.126 }, E5M2):tolist())
    local nan = ridge.tensor({ 465, -INF, 0 / 0 }, E4M3):tolist()
    for i = 1, 3 do assert.is_true(nan[i] ~= nan[i]) end
    assert.same({ 448, -448 }, ridge.tensor { 1e5, -1e5 }:minimum(448):maximum(-448):to('f8e4m3')
      :tolist(), 'clamped before')
    assert.equal(6, ridge.zeros(2, 3, E5M2).bytes)
  end)

  it('are made, filled, copied, joined, taken, viewed and set', function()
    local x = ridge.arange(0, 5, E4M3):reshape(2, 3)
    assert.equal('f8e4m3', x.dtype)
    assert.same({ { 0, 3 }, { 1, 4 }, { 2, 5 } }, x:t():clone():tolist())
    assert.same({ { 1, 2 }, { 4, 5 } }, x:narrow(2, 2, 2):contiguous():tolist())
    assert.same({ 7, 7 }, ridge.empty(2, E5M2):fill_(7.2):tolist())
    assert.same({ { 0, 1, 2 }, { 3, 4, 5 }, { 0, 1, 2 }, { 3, 4, 5 } },
      ridge.concat({ x, x }, 1):tolist())
    assert.same({ { 3, 4, 5 }, { 0, 1, 2 } },
      x:take(ridge.tensor({ 1, 0 }, { dtype = 'i64' })):tolist())
    assert.same({ 0.5, 0.5 }, ridge.zeros(2, E4M3):copy_(ridge.tensor { 0.5 }):tolist())
    x[{ 1, 2 }] = 9.4
    assert.equal(9, x:get(1, 2))
    assert.same({ true, false }, ridge.tensor({ 2 ^ -9, 0 }, E4M3):to('bool'):tolist())
  end)

  it('are equal, close and printed as numbers', function()
    local x = ridge.tensor({ 1, 1.5, -2 }, E4M3)
    assert.is_true(x:equal(x:clone()))
    assert.is_true(x:equal(x:to 'f8e5m2'))
    assert.is_true(x:equal(x:to 'f32'))
    assert.is_false(x:equal(ridge.tensor({ 1, 1.5, -2.25 }, E4M3)))
    assert.is_true(x:allclose(ridge.tensor { 1.001, 1.501, -2.002 }, 1e-2))
    assert.matches('1.5000', tostring(x), 1, true)
    assert.matches('tensor f8e4m3[3] cpu', tostring(x), 1, true)
    assert.matches('nan', tostring(ridge.full(1e9, 2, E4M3)))
    assert.matches('inf', tostring(ridge.full(1e9, 2, E5M2)))
  end)

  it('are refused by what computes, at the line that asks, with what to do', function()
    local x = ridge.ones(2, 2, E4M3)
    local y = ridge.ones(2, 2)
    local layer = ridge.nn.Linear(2, 2)
    for name, f in pairs {
      add = function() return x + 1 end,
      ['add of two'] = function() return y + x end,
      add_ = function() return y:add_(x) end,
      mul_ = function() return x:mul_(2) end,
      neg = function() return -x end,
      exp = function() return x:exp() end,
      sum = function() return x:sum() end,
      argmax = function() return x:argmax() end,
      softmax = function() return x:softmax() end,
      matmul = function() return x:matmul(y) end,
      eq = function() return x:eq(x) end,
      layer = function() return layer(x) end,
      dropout = function() return x:dropout(0.5) end,
      concat = function() return ridge.concat({ x, y }, 1) end,
      ['concat of two kinds'] = function() return ridge.concat({ x, x:to 'f8e5m2' }, 1) end,
      randn = function() return ridge.randn(2, E4M3) end,
      rand = function() return ridge.rand(2, E4M3) end,
      randint = function() return ridge.randint(0, 5, 2, E4M3) end,
      uniform_ = function() return x:uniform_() end,
    } do
      local e = failure(f)
      assert.equal('EDTYPE', e.code, name)
      assert.matches('f8e4m3 is a type for storing; convert to f16, bf16 or f32 first', e.message,
        1, true)
      assert.matches('f8_spec', tostring(e))
    end
    assert.equal('add: f8e4m3 is a type for storing; convert to f16, bf16 or f32 first',
      failure(function() return x + y end).message)
    assert.same({ { 1, 1 }, { 1, 1 } }, x:tolist())
    assert.matches('f8e4m3', failure(layer.to, layer, 'f8e4m3').message)
  end)

  it('let no gradient through, and want none', function()
    local x = ridge.ones(2):requires_grad_()
    assert.is_false(x:to('f8e4m3').requires_grad)
    assert.is_false(x:to('f8e4m3'):to('f32').requires_grad)
    assert.equal('EDTYPE', failure(function() ridge.ones(2, E4M3):requires_grad_() end).code)
  end)

  it('are looked at by the mode that finds the first number that is not finite', function()
    local x = ridge.tensor { 400, 57000 }
    assert.equal('ENAN', failure(ridge.anomaly, function() return x:to 'f8e4m3' end).code)
    ridge.anomaly(function() return x:to 'f8e5m2', x:narrow(1, 1, 1):to 'f8e4m3' end)
    assert.equal('ENAN', failure(ridge.anomaly, function() return (x * 2):to 'f8e5m2' end).code)
  end)

  it('are left alone by autocast', function()
    ridge.autocast('bf16', function()
      local x = ridge.ones(2, E5M2)
      assert.equal('f8e5m2', ridge.concat({ x, x }, 1).dtype)
      assert.equal('f8e5m2', x:clone().dtype)
      assert.equal('EDTYPE', failure(function() return x:view(1, 2):matmul(x:view(2, 1)) end).code)
    end)
  end)

  it('are converted inside a plan', function()
    local x = ridge.tensor { 1.1, 500, -3 }
    local plan = ridge.capture(function() return x:to 'f8e5m2':to 'f32' end)
    x:copy_(ridge.tensor { 1.1, 7, 1e9 })
    plan:run(1)
    assert.same({ 1, 7, INF }, plan.results[1]:tolist())
  end)

  it('go through files under the names of safetensors, byte by byte', function()
    local path = os.tmpname()
    ridge.save(path, { a = ridge.tensor({ 1, -448, 500 }, E4M3), b = ridge.full(1e9, 1, E5M2) })
    local file = assert(io.open(path, 'rb'))
    local text = file:read '*a'
    file:close()
    assert.matches('"dtype":"F8_E4M3"', text, 1, true)
    assert.matches('"dtype":"F8_E5M2"', text, 1, true)
    assert.equal('\56\254\127\124', text:sub(-4))
    local found = ridge.load(path)
    assert.equal('f8e4m3', found.a.dtype)
    assert.equal('f8e5m2', found.b.dtype)
    assert.equal(-448, found.a:get(2))
    assert.equal(INF, found.b:item())
    os.remove(path)
  end)

  it('are rows of a loader and of a file', function()
    local path = os.tmpname()
    local file = assert(io.open(path, 'wb'))
    file:write('\56\64\0\127')
    file:close()
    local rows = ridge.data.rows(path, { shape = { 2 }, dtype = 'f8e4m3' })
    for x, y in ridge.data.Loader({ rows, ridge.tensor({ 5, 6 }, E5M2) },
        { batch = 2, shuffle = false }):each() do
      assert.equal('f8e4m3', x.dtype)
      assert.same({ 1, 2 }, x:select(1, 1):tolist())
      assert.same({ 5, 6 }, y:tolist())
    end
    assert.matches('cannot become f32 from f8e4m3', failure(function()
      for _ in ridge.data.Loader({ ridge.data.rows(path, { shape = { 2 }, dtype = 'f8e4m3',
        to = 'f32' }) }, { batch = 2 }):each() do error 'a batch' end
    end).message)
    os.remove(path)
  end)

  it('are what 256 patterns say, there and back', function()
    local bytes = ffi.new 'uint8_t[256]'
    for i = 0, 255 do bytes[i] = i end
    for _, dtype in ipairs { 'f8e4m3', 'f8e5m2' } do
      local path = os.tmpname()
      local file = assert(io.open(path, 'wb'))
      local header = ('{"x":{"dtype":"%s","shape":[256],"data_offsets":[0,256]}}'):format(
        dtype == 'f8e4m3' and 'F8_E4M3' or 'F8_E5M2')
      file:write(string.char(#header), ('\0'):rep(7), header, ffi.string(bytes, 256))
      file:close()
      local x = ridge.load(path).x
      local back = ridge.tensor(x:tolist(), { dtype = dtype })
      ridge.save(path, { x = back })
      file = assert(io.open(path, 'rb'))
      local text = file:read('*a'):sub(-256)
      file:close()
      local list = x:tolist()
      for i = 0, 255 do
        assert.equal(list[i + 1] ~= list[i + 1] and 127 or i, text:byte(i + 1), dtype .. ' ' .. i)
      end
      os.remove(path)
    end
  end)
end)
