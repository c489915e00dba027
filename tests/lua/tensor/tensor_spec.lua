-- SPDX-License-Identifier: MIT
local ridge = require 'ridge'

local function failure(f, ...)
  local ok, e = pcall(f, ...)
  assert.is_false(ok, 'an error is expected')
  return e
end

describe('making tensors', function()
  it('takes nested lists, numbers and booleans', function()
    local x = ridge.tensor { { 1, 2, 3 }, { 4, 5, 6 } }
    assert.same({ 2, 3 }, x.shape)
    assert.same({ { 1, 2, 3 }, { 4, 5, 6 } }, x:tolist())
    assert.equal('f32', x.dtype)
    assert.equal(7, ridge.tensor(7):item())
    assert.same({ true, false }, ridge.tensor({ true, false }, { dtype = 'bool' }):tolist())
  end)

  it('become lists, and lists tensors, until Ctrl-C is pressed', function()
    local C = require 'ridge.ffi.lib'
    local n = 2 ^ 18
    local list = {}
    for i = 1, n do list[i] = i end
    local function pressed(f, ...)
      C.rg_interrupt_set()
      local ok, e = pcall(f, ...)
      C.rg_interrupt_clear()
      return not ok and e.code, not ok and e.message
    end
    for _, sizes in ipairs { { n }, { n, 1 }, { 1, n }, { 2, n / 4, 2 }, { n, 0 } } do
      local x = ridge.zeros(unpack(sizes))
      assert.same({ 'EINTR', 'tolist: interrupted' }, { pressed(x.tolist, x) })
    end
    assert.equal('EINTR', (pressed(ridge.tensor, list)))
    -- and are whole beyond the pieces between two looks
    local back = ridge.tensor(list, { dtype = 'i32' }):tolist()
    assert.equal(n, #back)
    for i = 1, n do
      if back[i] ~= i then error(('element %d is %s'):format(i, tostring(back[i]))) end
    end
    local rows = ridge.tensor(list, { dtype = 'i32' }):reshape(n / 2, 2):eq(7):tolist()
    assert.same({ { false, false }, { true, false } }, { rows[3], rows[4] })
  end)

  it('makes zeros, ones, full, arange', function()
    assert.same({ 0, 0 }, ridge.zeros(2):tolist())
    assert.same({ { 1 }, { 1 } }, ridge.ones(2, 1):tolist())
    assert.same({ 3, 3 }, ridge.full(3, { 2 }):tolist())
    assert.same({ 0, 2, 4 }, ridge.arange(0, 4, 2):tolist())
    assert.same({ 0, 1, 2 }, ridge.arange(0, 2, { dtype = 'i64' }):tolist())
  end)

  it('holds every element type', function()
    for _, name in ipairs { 'f64', 'f32', 'f16', 'bf16', 'i64', 'i32', 'i8', 'u8', 'f8e4m3',
      'f8e5m2' } do
      local x = ridge.tensor({ 1, 2, 96 }, { dtype = name })
      assert.equal(name, x.dtype)
      assert.same({ 1, 2, 96 }, x:tolist())
    end
  end)

  it('refuses ragged lists, bad sizes and unknown types, with the facts', function()
    assert.matches('axis 2 differ', failure(ridge.tensor, { { 1, 2 }, { 3 } }).message)
    assert.matches('negative', failure(ridge.zeros, -1).message)
    assert.matches('whole numbers', failure(ridge.zeros, 1.5).message)
    assert.matches("did you mean 'f32'", failure(ridge.zeros, 2, { dtype = 'f23' }).message)
    assert.matches('unknown option', failure(ridge.zeros, 2, { dtpye = 'f32' }).message)
    assert.matches('nil', failure(ridge.tensor, nil).message)
  end)

  it('answers a huge size with an error, not with death', function()
    local e = failure(ridge.zeros, 1e6, 1e6)
    assert.equal('ENOMEM', e.code)
    assert.matches('too many', failure(ridge.zeros, 2 ^ 40, 2 ^ 40).message)
  end)

  it('draws the same numbers from the same seed', function()
    ridge.seed(5)
    local a = ridge.randn(100)
    ridge.seed(5)
    local b = ridge.randn(100)
    assert.is_true(a:equal(b))
    assert.is_false(a:equal(ridge.randn(100)))
    local g, h = ridge.generator(9), ridge.generator(9)
    assert.is_true(ridge.rand(7, { generator = g }):equal(ridge.rand(7, { generator = h })))
  end)

  it('draws uniform numbers from 0 to 1, and normal ones around 0', function()
    local x = ridge.rand(10000, { generator = ridge.generator(1) })
    local y = ridge.randn(10000, { generator = ridge.generator(1) })
    for i = 0, 9 do -- a tenth of them in each tenth
      assert.near(1000, (x:ge(i / 10):to 'f32' * x:lt((i + 1) / 10):to 'f32'):sum():item(), 150)
    end
    assert.near(0, y:mean():item(), 0.05)
    assert.near(1, (y * y):mean():item(), 0.1)
  end)

  it('takes normal numbers in pairs, and two for each of f64', function()
    for n = 1, 6 do
      for dtype, each in pairs { f32 = 1, f64 = 2, bf16 = 1 } do
        local g = ridge.generator(9)
        ridge.randn(n, { generator = g, dtype = dtype })
        assert.equal(2 * each * math.ceil(n / 2), g:offset())
      end
    end
  end)

  it('begins a stream anew with another seed', function()
    local g = ridge.generator(9)
    ridge.rand(7, { generator = g })
    assert.equal(9, g:seed())
    assert.equal(7, g:offset())
    assert.equal(4, g:seed(4))
    assert.equal(0, g:offset())
    assert.is_true(ridge.rand(7, { generator = g }):equal(
      ridge.rand(7, { generator = ridge.generator(4) })))
    local ok, e = pcall(g.seed, g, -1)
    assert.is_false(ok)
    assert.matches('^generator:seed: a seed is a whole number', e.message)
    assert.equal(4, g:seed())
  end)
end)

describe('arithmetic', function()
  it('works with numbers on either side', function()
    local x = ridge.tensor { 1, 2 }
    assert.same({ 2, 3 }, (x + 1):tolist())
    assert.same({ 9, 8 }, (10 - x):tolist())
    assert.same({ 2, 4 }, (2 * x):tolist())
    assert.same({ 2, 1 }, (2 / x):tolist())
    assert.same({ 1, 4 }, (x ^ 2):tolist())
    assert.same({ -1, -2 }, (-x):tolist())
    assert.same({ 2, 4 }, (x + x):tolist())
    assert.equal(2, #x)
  end)

  it('loses nothing behind a hole of its list', function()
    local one = {}
    one[1], one[3] = 1, 3
    for _, list in ipairs { { 1, nil, 3 }, { { 1, nil, 3 }, { 1, nil, 3 } }, { [2] = 1 }, one } do
      assert.matches('is nil', failure(ridge.tensor, list).message)
    end
    assert.matches('differ in length', failure(ridge.tensor, { {}, { 1, 2 } }).message)
    assert.same({ 0 }, ridge.tensor({}).shape)
    assert.same({ 2, 0 }, ridge.tensor({ {}, {} }).shape)
    assert.same({ 2 }, ridge.tensor({ 1, 2, x = 3 }).shape)
  end)

  it('takes lists of axes and sizes that are lists', function()
    local x = ridge.tensor { { 1, 2 }, { 3, 4 } }
    for _, name in ipairs { 'sum', 'mean', 'max', 'min', 'prod' } do
      assert.matches(name .. ': a list of numbers', failure(x[name], x, { axis = 1 }).message)
      assert.matches('list of numbers', failure(x[name], x, { 1, keep = true }).message)
      assert.same(x[name](x, 1):tolist(), x[name](x, { 1 }):tolist())
    end
    for _, name in ipairs { 'view', 'reshape', 'permute', 'expand' } do
      assert.matches(name .. ': a list of numbers', failure(x[name], x, { 2, 2, size = 4 }).message)
    end
    assert.matches('list of numbers', failure(ridge.ones, { 2, 3, size = 4 }, {}).message)
  end)

  it('broadcasts and names both shapes where it cannot', function()
    local x, row = ridge.ones(2, 3), ridge.tensor { 1, 2, 3 }
    assert.same({ { 2, 3, 4 }, { 2, 3, 4 } }, (x + row):tolist())
    local e = failure(function() return x + ridge.ones(2) end)
    assert.equal('ESHAPE', e.code)
    assert.matches('f32%[2,3%]', e.message)
    assert.matches('f32%[2%]', e.message)
    assert.matches('tensor_spec.lua:%d+', e.where)
  end)

  it('refuses what is no tensor and no number', function()
    local x = ridge.ones(2)
    for _, bad in ipairs { {}, 'text', true } do
      assert.matches('tensor or a number', failure(function() return x + bad end).message)
    end
    assert.matches('nil', failure(function() return x:add(nil) end).message)
    assert.matches('tensor', failure(x.relu, nil).message)
  end)

  it('writes in place and counts the version', function()
    local x = ridge.tensor { -1, 2 }
    local before = x.version
    assert.is_true(rawequal(x:relu_(), x) or true)
    assert.same({ 0, 2 }, x:tolist())
    x:add_(1):mul_(ridge.tensor { 2, 3 })
    assert.same({ 2, 9 }, x:tolist())
    assert.is_true(x.version > before)
  end)

  it('reads what it writes over before it does, in another arrangement too', function()
    local n = 100001
    for shift = -1, 1 do
      local a = ridge.arange(0, n):to 'f32'
      local from, to = a:narrow(1, 2, n - 2), a:narrow(1, 2 + shift, n - 2)
      local wanted = from:clone()
      assert.is_true(to:copy_(from):equal(wanted), shift)
    end
    for _, op in ipairs { 'copy_', 'add_', 'mul_', 'sub_' } do
      local b = ridge.arange(1, 300 * 300):to('f32'):view(300, 300)
      local c = b:clone()
      assert.is_true(b[op](b, b:t()):equal(c[op](c, c:t():clone())), op)
    end
  end)

  it('writes each place once, however many threads share the work', function()
    local threads = ridge.num_threads()
    local row, column = ridge.ones(3001), ridge.ones(1501, 1)
    for n = 1, 4 do
      ridge.set_num_threads(n)
      local x = ridge.zeros(1501, 3001)
      x:add_(row):add_(column):add_(1)
      x:t():add_(column:t():t():view(1501))
      assert.equal(4, x:min():item())
      assert.equal(4, x:max():item())
    end
    ridge.set_num_threads(threads)
  end)

  it('reduces over axes counted from 1', function()
    local x = ridge.tensor { { 1, 2 }, { 3, 4 } }
    assert.equal(10, x:sum():item())
    assert.same({ 4, 6 }, x:sum(1):tolist())
    assert.same({ 3, 7 }, x:sum(-1):tolist())
    assert.same({ { 1.5 }, { 3.5 } }, x:mean(2, true):tolist())
    assert.same({ 1, 1 }, x:argmax(-1):tolist())
    assert.equal(4, x:max():item())
    assert.near(math.sqrt(30), x:norm():item(), 1e-6)
    assert.matches('count from 1', failure(x.sum, x, 0).message)
    assert.matches('no axis 3', failure(x.sum, x, 3).message)
  end)

  it('wraps whole numbers around, as the machine does, in sums and cumulative sums too', function()
    local most = ridge.full(2 ^ 62, 3, { dtype = 'i64' })
    local wanted = { 2 ^ 62, -2 ^ 63, -2 ^ 62 } -- of one, of two, of three
    assert.same(wanted, most:cumsum(1):tolist())
    assert.same(wanted, most:view(3, 1):expand(3, 2):cumsum(1):t()[1]:tolist())
    assert.equal(wanted[3], most:sum():item())
    assert.equal(wanted[2], (most + most)[1]:item())
  end)

  it('takes softmax along an axis that lies apart in the result alone', function()
    local log = math.log
    local x = ridge.tensor({ { 0, log(3) }, { 0, log(7) }, { log(2), 0 } }):t()
    local y = x:softmax(1):tolist()
    for i, row in ipairs { { 1 / 4, 1 / 8, 2 / 3 }, { 3 / 4, 7 / 8, 1 / 3 } } do
      for j, share in ipairs(row) do assert.near(share, y[i][j], 1e-6) end
    end
  end)

  -- Rows whose sum tells a start at 2^-149 from one at 0: of some exponents in each octave one is
  -- taken that keeps the two sums a unit of the last place apart, and at the end what they divide.
  it('adds up the softmax of each column from zero', function()
    local room = require('ffi').new 'float[1]'
    local function f32(x)
      room[0] = x
      return tonumber(room[0])
    end
    local a, b, column, last = 0, 2 ^ -149, {}, -3
    for octave = -125, last do
      local tries = {}
      for i = 1, 24 do tries[i] = (octave + i / 37) * math.log(2) end
      local x = ridge.tensor(tries)
      local e, found = x:exp():tolist(), nil
      for i, y in ipairs(e) do
        local c, d = f32(a + y), f32(b + y)
        if octave == last then c, d = f32(1 / f32(c + 1)), f32(1 / f32(d + 1)) end
        found = c ~= d and i or found
      end
      assert.is_truthy(found)
      a, b = f32(a + e[found]), f32(b + e[found])
      column[#column + 1] = x[found]:item()
    end
    column[#column + 1] = 0 -- the largest
    local n = #column
    local y = ridge.tensor(column):view(n, 1):expand(n, 64):contiguous():softmax(1)
    assert.equal(f32(1 / f32(a + 1)), y[n][1]:item())
    assert.equal(1, y:eq(y:narrow(2, 1, 1)):to('f32'):min():item()) -- every column is the same
  end)

  it('multiplies matrices and names shapes that do not agree', function()
    local y = ridge.tensor { { 1, 2 }, { 3, 4 } }:matmul(ridge.tensor { { 1 }, { 1 } })
    assert.same({ { 3 }, { 7 } }, y:tolist())
    local e = failure(function() return ridge.ones(2, 3):matmul(ridge.ones(4, 5)) end)
    assert.equal('ESHAPE', e.code)
    assert.matches('%[2,3%]', e.message)
    assert.matches('%[4,5%]', e.message)
  end)
end)

describe('views', function()
  it('share memory and see writes', function()
    local x = ridge.arange(1, 6):view(2, 3)
    local row = x[2]
    assert.same({ 4, 5, 6 }, row:tolist())
    row:fill_(0)
    assert.same({ { 1, 2, 3 }, { 0, 0, 0 } }, x:tolist())
    assert.is_true(row:same_storage(x))
  end)

  it('index from 1 and from the end', function()
    local x = ridge.arange(1, 12):view(3, 4)
    assert.equal(12, x:get(3, 4))
    assert.equal(9, x[3]:get(1))
    assert.same({ 9, 10, 11, 12 }, x[-1]:tolist())
    assert.same({ 2, 6 }, x[{ { 1, 2 }, 2 }]:tolist())
    assert.same({ { 1, 3 } }, x[{ { 1 }, { 1, 4, 2 } }]:tolist())
    x[{ 1, 1 }] = 100
    assert.equal(100, x:get(1, 1))
    x[2] = ridge.zeros(4)
    assert.equal(0, x[2]:sum():item())
  end)

  it('have as many sizes as axes, from either end', function()
    for n, sizes in ipairs { { 2 }, { 2, 3 }, { 2, 3, 4 } } do
      local x = ridge.ones(sizes)
      assert.same(sizes, x:size())
      for axis = -n - 2, n + 2 do
        local wanted = sizes[axis] or sizes[n + 1 + axis]
        if wanted and axis ~= 0 then
          assert.equal(wanted, x:size(axis))
        else
          assert.equal('EAXIS', failure(function() return x:size(axis) end).code, axis)
        end
      end
    end
  end)

  it('of the least and the largest are the first of several', function()
    -- more than one tile, whose results are compared with one another
    local x = ridge.ones(100000)
    assert.same({ 0, 0 }, { x:argmin():item(), x:argmax():item() }) -- as data, from 0
    for value, name in pairs { [0] = 'argmin', [2] = 'argmax' } do
      x:fill_(1)
      for _, at in ipairs { 30011, 30012, 70001, 100000 } do x[at] = value end
      assert.equal(30010, x[name](x):item(), name)
    end
  end)

  it('are close within 1e-5 of the second, and 1e-8', function()
    local function close(a, b, ...)
      return ridge.tensor({ a }, { dtype = 'f64' }):allclose(ridge.tensor({ b },
        { dtype = 'f64' }), ...)
    end
    assert.same({ true, false }, { close(0.9e-8, 0), close(1.1e-8, 0) })
    assert.same({ true, false }, { close(1e6 + 9.9, 1e6), close(1e6 + 10.1, 1e6) })
    assert.same({ true, false }, { close(1.09, 1, 0.1), close(0.2, 0, 0.1) })
    assert.same({ true, false }, { close(0.2, 0, 0, 0.3), close(0.4, 0, 0, 0.3) })
  end)

  it('refuse position 0 with a hint, and what is outside', function()
    local x = ridge.ones(3)
    assert.matches('count from 1', failure(function() return x[0] end).message)
    assert.matches('outside', failure(function() return x[4] end).message)
    assert.matches('outside', failure(function() return x:get(-4) end).message)
    assert.matches('did you mean', failure(function() return x.shap end).message)
  end)

  it('transpose, permute, narrow, expand, squeeze', function()
    local x = ridge.arange(1, 6):view(2, 3)
    assert.same({ { 1, 4 }, { 2, 5 }, { 3, 6 } }, x:t():tolist())
    assert.same({ 3, 2 }, x:permute(2, 1).shape)
    assert.same({ { 2, 3 }, { 5, 6 } }, x:narrow(2, 2, 2):tolist())
    local ok, e = pcall(x.narrow, x, 2, 4, 1, 2) -- one behind the last, by two
    assert.is_false(ok)
    assert.equal('EAXIS', e.code)
    assert.same({ 2, 2, 3 }, x:expand(2, 2, 3).shape)
    assert.same({ 2, 1, 3 }, x:unsqueeze(2).shape)
    assert.same({ 2, 3 }, x:unsqueeze(2):squeeze(2).shape)
    assert.same({ 1, 4, 2, 5, 3, 6 }, x:t():reshape(6):tolist())
    assert.matches('contiguous', failure(function() return x:t():view(6) end).message)
  end)
end)

describe('text', function()
  it('shows numbers and a footer', function()
    local text = tostring(ridge.tensor { { 1, 2 }, { 3, 4 } })
    assert.matches('f32%[2,2%]', text)
    assert.matches('cpu', text)
  end)

  it('shows what is repeated beyond any memory as what it is', function()
    ridge.memory.set_limit(ridge.memory.stats().live + 2 ^ 26)
    local text = tostring(ridge.tensor { { 1 }, { 2 }, { 3.5 } }:expand(3, 2 ^ 31))
    local lines = {}
    for line in text:gmatch '[^\n]+' do lines[#lines + 1] = line end
    assert.equal('  1.0000  1.0000  1.0000  ...  1.0000  1.0000  1.0000', lines[1])
    assert.equal('  3.5000  3.5000  3.5000  ...  3.5000  3.5000  3.5000', lines[3])
    -- of 1, 2 and 3.5, each just as often: mean 6.5 / 3, spread sqrt(19 / 18)
    assert.matches('^tensor f32%[3,2147483648%] cpu  24 GB   mean 2.1667 std 1.0274   1 .* 3.5$',
      lines[4])
    text = tostring(ridge.full(5, 1, 1, { dtype = 'i8' }):expand(2 ^ 50, 2 ^ 8))
    assert.matches('^  ...\ntensor i8%[1125899906842624,256%] cpu  262144 TB   mean 5.0000', text)
    ridge.memory.set_limit(0)
  end)

  it('tells of large tensors what all their elements say', function()
    local x = ridge.zeros(2100, 1000) -- above two million only some are looked at one by one
    x[{ 7, 14 }] = 2.1e6
    for _, y in ipairs { x, x:t() } do
      assert.matches('mean 1.0000 std 1449.1377 .* 2.10e%+06$', tostring(y))
    end
    x:fill_(0 / 0)
    assert.matches('~2100000 nan$', tostring(x))
  end)

  it('says that tables cannot hold so many elements', function()
    local ok, e = pcall(function() return ridge.ones(1):expand(2 ^ 31):tolist() end)
    assert.is_false(ok)
    assert.equal('tolist: f32[2147483648] has 2147483648 elements, and tables hold at most '
      .. '134217728; take a part of it', e.message)
    ok, e = pcall(function() return ridge.empty(4, 2 ^ 40, 0):tolist() end)
    assert.is_false(ok)
    assert.equal('tolist: f32[4,1099511627776,0] has 4398046511104 empty lists, and tables hold at '
      .. 'most 134217728; take a part of it', e.message)
  end)

  it('never fails, whatever the tensor', function()
    for _, x in ipairs { ridge.zeros(0), ridge.tensor(1), ridge.zeros(2, 0, 3),
                         ridge.tensor { 0 / 0, math.huge }, ridge.ones(2000, 3),
                         ridge.ones(3, { dtype = 'bool' }),
                         ridge.ones(2, 2, { dtype = 'bf16' }),
                         ridge.full(1e9, 40, 40, { dtype = 'f8e4m3' }),
                         ridge.full(-1e9, 3, { dtype = 'f8e5m2' }) } do
      assert.is_string(tostring(x))
    end
  end)
end)

describe('memory', function()
  it('is given back by release, and use afterwards is an error', function()
    local x = ridge.ones(1000)
    local before = ridge.memory.stats().live
    x:release()
    assert.equal(before - 4000, ridge.memory.stats().live)
    x:release()
    assert.equal('ERELEASED', failure(function() return x.shape end).code)
    assert.matches('tensor', failure(function() return x + 1 end).message)
    assert.matches('released', tostring(x))
  end)

  it('is given back at the end of a scope, but for what is returned or kept', function()
    collectgarbage()
    local before = ridge.memory.stats().tensors
    local kept, lost
    local result = ridge.scope(function()
      local a = ridge.ones(10)
      lost = a + 1
      kept = ridge.keep(a * 3)
      return a + 5
    end)
    assert.equal(6, result:get(1))
    assert.equal(3, kept:get(1))
    assert.equal('ERELEASED', failure(function() return lost:sum() end).code)
    assert.is_not_nil(result)
    result, kept, lost = nil, nil, nil -- luacheck: ignore
    collectgarbage()
    assert.equal(before, ridge.memory.stats().tensors)
  end)

  it('stays bounded when only the collector lets go', function()
    -- in a process of its own: what remains depends on the size of the Lua heap
    local pipe = io.popen("./ridge -e 'for _ = 1, 3000 do local _ = ridge.zeros(65536) end; "
      .. "return ridge.memory.stats().peak'")
    local peak = tonumber(pipe:read '*a')
    pipe:close()
    -- 786 MB are asked for in all
    assert.is_true(peak < 300e6, ('%.0f MB at the peak'):format(peak / 1e6))
  end)

  it('has a limit that can be lived with', function()
    ridge.memory.trim()
    ridge.memory.set_limit(ridge.memory.stats().live + 2 ^ 20)
    local ok, e = pcall(ridge.zeros, 2 ^ 22)
    ridge.memory.set_limit(0)
    assert.is_false(ok)
    assert.equal('ENOMEM', e.code)
    assert.matches('limit', e.message)
    assert.equal(4, ridge.ones(4):sum():item())
  end)

  it('retries once after collecting when it ran out', function()
    ridge.memory.trim()
    local hold = {}
    ridge.memory.set_limit(ridge.memory.stats().live + 10 * 2 ^ 20)
    for i = 1, 2 do hold[i] = ridge.zeros(2 ^ 20) end
    assert.equal(2, #hold)
    hold = nil
    local ok, x = pcall(ridge.zeros, 2 ^ 20)
    ridge.memory.set_limit(0)
    assert.is_nil(hold)
    assert.is_true(ok)
    assert.equal(2 ^ 20, x.count)
  end)

  it('passes over no part of a position', function()
    local x = ridge.zeros(3, 4)
    for key, want in pairs { [{ nil, 1 }] = 'part 1 is nil', [{ 1, nil, 2 }] = 'part 2 is nil',
        [{ a = 1 }] = "'a' is no part", [{ { 1, 2, 1, 5 } }] = 'got 4 numbers' } do
      for _, f in ipairs { function() return x[key] end, function() x[key] = 1 end } do
        local ok, e = pcall(f)
        assert.is_false(ok)
        assert.matches(want, e.message, 1, true)
      end
    end
    assert.same({ 3, 4 }, x[{ {}, {} }].shape)
    assert.same({ 3, 4 }, x[{}].shape)
  end)

  it('narrows to what lies within, by start, length and step', function()
    for size = 0, 5 do
      -- of a longer storage, in which what is outside of the axis is not outside of memory
      local x = ridge.arange(1, 40):narrow(1, 1, size)
      for start = 1, size + 2 do
        for length = 0, size + 1 do
          for step = 1, 4 do
            local fits = length == 0 and start <= size + 1
              or length > 0 and start + (length - 1) * step <= size
            local ok, view = pcall(x.narrow, x, 1, start, length, step)
            assert.equal(fits, ok, ('%d from %d by %d of %d'):format(length, start, step, size))
            for k = 1, ok and length or 0 do
              assert.equal(start + (k - 1) * step, view:get(k))
            end
          end
        end
      end
    end
  end)
end)
