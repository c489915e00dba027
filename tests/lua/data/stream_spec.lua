-- SPDX-License-Identifier: MIT
-- Batches of rows that come one after the other: from iterators and from files that grow.
local ridge = require 'ridge'
local blame = require 'ridge.blame'
local folders = dofile 'tests/lua/store/folder.lua'

local function counter(n, row)
  local i, pulled = 0, { n = 0 }
  return function()
    if i == n then return nil end
    i = i + 1
    pulled.n = i
    if row then return row(i) end
    return { i, 2 * i }, i
  end, pulled
end

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  assert.is_true(blame.is_error(err), tostring(err))
  return tostring(err.message)
end

local function all(stream)
  local out = {}
  for x in stream:each() do out[#out + 1] = x:reshape(-1):tolist() end
  return out
end

describe('a stream of rows', function()
  it('is batches in their order, the last one smaller', function()
    local sizes = {}
    for x, y in ridge.data.stream((counter(5)), { batch = 2, dtype = { 'f32', 'i64' } }):each() do
      sizes[#sizes + 1] = x:describe() .. ' ' .. y:describe()
      assert.same(y:tolist(), x:select(2, 1):tolist())
    end
    assert.equal(3, #sizes)
    assert.matches('^f32%[2,2%].* i64%[2%]', sizes[1])
    assert.matches('^f32%[1,2%]', sizes[3])
    local function one(i) return i end
    assert.same({ { 1, 2 }, { 3, 4 } }, all(ridge.data.stream((counter(5, one)), { batch = 2,
      drop_last = true })))
    assert.same({ { 1, 1, 2, 2 }, { 3, 3 } }, all(ridge.data.stream((counter(3, function(i)
      return ridge.full(i, 2)
    end)), { batch = 2 })))
  end)

  it('takes no row before it is asked for', function()
    local next, pulled = counter(1e9)
    local stream = ridge.data.stream(next, { batch = 4 })
    assert.equal(0, pulled.n)
    local each = stream:each()
    assert.equal(0, pulled.n)
    each()
    assert.equal(4, pulled.n)
    each()
    assert.equal(8, pulled.n)
  end)

  it('has epochs of so many batches, and goes on in the next', function()
    local function one(i) return i end
    local stream = ridge.data.stream((counter(7, one)), { batch = 2, batches = 2 })
    assert.same({ { 1, 2 }, { 3, 4 } }, all(stream))
    assert.same({ { 5, 6 }, { 7 } }, all(stream))
    assert.same({}, all(stream))
    local begun = 0
    stream = ridge.data.stream((counter(2, one)), { batch = 2, again = function()
      begun = begun + 1
      return (counter(3, one))
    end })
    assert.same({ { 1, 2 } }, all(stream))
    assert.same({ { 1, 2 }, { 3 } }, all(stream))
    assert.same({ { 1, 2 }, { 3 } }, all(stream))
    assert.equal(2, begun)
    assert.same({ taken = 3 }, stream:state()) -- of the epoch that it is in
  end)

  it('goes on where another one was', function()
    local function one(i) return i end
    local stream = ridge.data.stream((counter(9, one)), { batch = 2 })
    local each = stream:each()
    each()
    each()
    assert.same({ taken = 4 }, stream:state())
    assert.equal(stream, stream:load_state(stream:state())) -- where it is already
    local other = ridge.data.stream((counter(9, one)), { batch = 2 }):load_state(stream:state())
    assert.same({ 5, 6 }, other:each()():tolist())
    assert.matches('ends behind 2 of 4 rows', message(function()
      ridge.data.stream((counter(2, one))):load_state { taken = 4 }
    end))
    assert.matches('the state says nil', message(function() stream:load_state {} end))
    for _, odd in ipairs { 0 / 0, 1 / 0, 4.5, -1 } do -- from a file that may be damaged
      assert.matches('4 rows were taken, and the state says', message(function()
        stream:load_state { taken = odd }
      end))
    end
    local one_row = ridge.data.stream((counter(1, one)))
    all(one_row)
    assert.equal('data.stream(batches of 32, 1 row taken, at its end)', tostring(one_row))
  end)

  it('trains a net', function()
    local t = ridge.Trainer(ridge.nn.Linear(2, 1, { seed = 1 }), { lr = 0.01, say = function() end,
      loss = function(y, z) return ridge.nn.mse_loss(y, z:reshape(-1, 1)) end })
    t:fit(ridge.data.stream((counter(64, function(i) return { i / 64, 1 }, i / 32 end)),
      { batch = 8, batches = 4 }), { epochs = 2 })
    assert.equal(2, t.epoch)
  end)

  it('says which row is odd', function()
    assert.matches('row 2 has 1 value, and the first has 2', message(all, ridge.data.stream((
      counter(3, function(i) if i == 2 then return 1 end return 1, 2 end)))))
    assert.matches("value 1 of row 1 is 'x'; a number, a list or a tensor", message(all,
      ridge.data.stream((counter(3, function() return 'x' end)))))
    assert.matches('value 1 is f32%[1%].* in one row and f32%[2%]', message(all, ridge.data.stream((
      counter(3, function(i) return ridge.ones(i) end)))))
    assert.matches('value 2 has no element type; dtype lists 1', message(all, ridge.data.stream((
      counter(3)), { dtype = { 'f32' } })))
    assert.matches('an iterator or a path is expected, got 3', message(ridge.data.stream, 3))
    assert.matches('again gives an iterator, got 3', message(function()
      local s = ridge.data.stream((counter(0)), { again = function() return 3 end })
      all(s)
      all(s)
    end))
    local ok, err = pcall(all, ridge.data.stream(function() error('my own', 0) end))
    assert.is_false(ok)
    assert.equal('my own', err)
  end)
end)

describe('a file that grows', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/rows.csv'
  end)
  after_each(function() folders.remove(folder) end)

  local function put(text, mode)
    local f = assert(io.open(path, mode or 'wb'))
    f:write(text)
    f:close()
  end

  it('is its lines, the last one without an end too', function()
    put '1,2\r\n\n3,4\n5,6'
    assert.same({ { 1, 2, 3, 4 }, { 5, 6 } }, all(ridge.data.stream(path, { batch = 2 })))
    put '1;2\n'
    assert.same({ { 1, 2 } }, all(ridge.data.stream(path, { separator = ';' })))
    put ''
    assert.same({}, all(ridge.data.stream(path)))
    put '\239\187\1911,2\r\n3,4\r\n'
    assert.same({ { 1, 2, 3, 4 } }, all(ridge.data.stream(path)))
  end)

  it('is cut into lines in time that grows as it does', function()
    local function seconds(lines)
      put(('1\n'):rep(lines))
      local start, n = os.clock(), 0
      for x in ridge.data.stream(path, { batch = 1000 }):each() do n = n + x.count end
      assert.equal(lines, n)
      return os.clock() - start
    end
    seconds(1000)
    -- one by one out of 64 kB, each with a copy of all behind it, lines took twenty times as long
    local per_line = math.min(seconds(2000), seconds(2000)) / 2000
    assert.is_true(seconds(40000) / 40000 < 4 * per_line)
  end)

  it('is read as it is written, in whole lines', function()
    put '1,2\n3,'
    os.execute(("(sleep 0.2; printf '4\\n5,6\\n7' >> '%s') &"):format(path))
    local plain, said = require 'ridge.plain', {}
    local note = plain.note
    plain.note = function(text) said[#said + 1] = text end -- luacheck: ignore 122
    finally(function() plain.note = note end) -- luacheck: ignore 122
    assert.same({ { 1, 2 }, { 3, 4 }, { 5, 6 } }, all(ridge.data.stream(path, { batch = 1,
      wait = 0.6 })))
    -- 7 may be half of 78, and is not lost in silence
    assert.same({ ('data.stream: %s ends in a line without an end, which is left out: line 4\n')
      :format(path) }, said)
    -- a line that takes longer than the wait in all, and never so long between two of its parts
    put '1'
    os.execute(("(for i in 1 2 3 4 5 6; do sleep 0.14; printf 0 >> '%s'; done; echo >> '%s') &")
      :format(path, path))
    assert.same({ { 1e6 } }, all(ridge.data.stream(path, { batch = 1, batches = 1, wait = 0.6 })))
  end)

  it('is refused where it was truncated or written anew', function()
    -- of as many bytes, more or fewer: what goes on in the middle of a line would be other numbers
    local seven = '7,8\n'
    for _, anew in ipairs { '5,6\n', '', seven:rep(4), seven:rep(3) .. '1234,5678\n9,9\n' } do
      for _, wait in ipairs { 0, 0.1 } do
        put(('1,2\n'):rep(4))
        local each = ridge.data.stream(path, { batch = 2, wait = wait }):each()
        assert.same({ { { 1, 2 }, { 1, 2 } }, { { 1, 2 }, { 1, 2 } } }, { each():tolist(),
          each():tolist() })
        put(anew)
        assert.matches('rows.csv was truncated or written anew: line 4 is no longer where',
          message(each))
      end
    end
    -- more of the same is no other file, however long it is
    put(('1,2\n'):rep(50))
    local each = ridge.data.stream(path, { batch = 50, wait = 0.1 }):each()
    each()
    put(('1,2\n'):rep(150))
    assert.same({ 50, 2 }, each():size())
    put(('1,2\n'):rep(50), 'ab')
    each()
    assert.same({ 50, 2 }, each():size())
    assert.is_nil(each())
  end)

  it('says line and column of what is no number', function()
    -- what a type cannot hold is no other number, as in ridge.data.csv
    for _, case in ipairs { { '300', 'u8', '300 is no u8' }, { '0.5', 'i32', '0.5 is no i32' },
        { 'nan', 'i64', 'nan is no i64' },
        { '9007199254740993', 'i64', 'more digits than a stream' },
        { '2', 'bool', '2 is no bool' }, { '', nil, 'an empty field is no number' },
        { '1700000001', nil, "more digits than f32 holds: dtype = 'i64' keeps them" },
        { '1;2', 'f64', "'1;2' is no number %(separator = ';'%?%)" } } do
      put('1,1\n1,' .. case[1] .. '\n')
      assert.matches('rows.csv line 2, column 2: .*' .. case[3], message(all,
        ridge.data.stream(path, { dtype = case[2] })))
    end
    for kind, text in pairs { u8 = '255', i64 = '-9007199254740992', f32 = '1700000001',
        bool = '1' } do
      put(text .. '\n')
      local x = ridge.data.stream(path, { dtype = kind }):each()()
      assert.equal(kind, x.dtype)
      assert.equal(kind == 'f32' and 1700000000 or tonumber(text), x:to('f64'):item())
    end
    put '1,2\n3,\0004\n'
    assert.matches('line 2, column 2: a byte 0, which no text has: is it UTF%-16%?', message(all,
      ridge.data.stream(path)))
    put '1,2\n3,x\n'
    assert.matches("data.stream: .*rows.csv line 2, column 2: 'x' is no number", message(all,
      ridge.data.stream(path, { batch = 1 })))
    put '1,2\n3\n'
    assert.matches('line 2 has 1 field, the first has 2', message(all, ridge.data.stream(path)))
    put(('1'):rep(2 ^ 20 + 2 ^ 17))
    assert.matches('line 1 has more than a megabyte', message(all, ridge.data.stream(path)))
    assert.matches('No such file', message(ridge.data.stream, folder .. '/none'))
    assert.matches('is no file', message(ridge.data.stream, folder))
  end)
end)
