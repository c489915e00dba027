-- SPDX-License-Identifier: MIT
-- The loader's threads: the same batches whatever their number, what goes wrong in them, and that
-- they end.
local ridge = require 'ridge'

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function threads()
  local n = 0
  for line in io.lines '/proc/self/status' do n = tonumber(line:match '^Threads:%s*(%d+)') or n end
  return n
end

describe('a loader with threads', function()
  local x, y

  before_each(function()
    x = ridge.arange(0, 99 * 3 + 2):reshape(100, 3)
    y = ridge.arange(0, 99):to 'i64'
  end)

  local function batches(opts, epochs)
    local loader, list = ridge.data.Loader({ x, y }, opts), {}
    for _ = 1, epochs or 1 do
      for a, b in loader:each() do list[#list + 1] = { a:tolist(), b:tolist() } end
    end
    return list
  end

  it('gives the batches of one without, in every epoch', function()
    local plain = batches({ batch = 7, seed = 3 }, 3)
    for _, workers in ipairs { 1, 2, 5 } do
      assert.same(plain, batches({ batch = 7, seed = 3, workers = workers }, 3))
    end
    assert.same(batches { batch = 7, shuffle = false, drop_last = true },
      batches { batch = 7, shuffle = false, drop_last = true, workers = 2 })
  end)

  it('gives each of several iterations all of its batches', function()
    for _, workers in ipairs { 0, 1, 3 } do
      local loader = ridge.data.Loader({ x, y }, { batch = 7, seed = 3, workers = workers })
      local plain = batches({ batch = 7, seed = 3 }, 3)
      local got, iterations = { {}, {}, {} }, {}
      for i = 1, 3 do iterations[i] = loader:each() end
      -- in turns, the second twice as fast as the first; the third when they are at their ends
      local turns = { 1, 2, 2 }
      local function take(which)
        local a, b = iterations[which]()
        if a then table.insert(got[which], { a:tolist(), b:tolist() }) end
        return a ~= nil
      end
      local more = true
      while more do
        more = false
        for _, which in ipairs(turns) do more = take(which) or more end
      end
      while take(3) do end
      assert.same({ plain[1], plain[2] }, { got[1][1], got[1][2] })
      local all = {}
      for i = 1, 3 do
        assert.are.equal(15, #got[i])
        for _, batch in ipairs(got[i]) do all[#all + 1] = batch end
      end
      assert.same(plain, all)
    end
  end)

  it('goes on behind an iteration that was left, again and again', function()
    local loader = ridge.data.Loader({ x, y }, { batch = 10, shuffle = false, workers = 2 })
    for _ = 1, 20 do
      assert.are.equal(0, loader:each()():tolist()[1][1]) -- and the rest is left
    end
    local seen = 0
    for a in loader:each() do
      assert.are.equal(seen * 30, a:tolist()[1][1])
      seen = seen + 1
    end
    assert.are.equal(10, seen)
  end)

  it('tells the iteration whose batch went wrong, and no other', function()
    local loader = ridge.data.Loader({ x, y }, { batch = 10, shuffle = false, workers = 1,
      transform = function(number) if number == 15 then error('number ' .. number) end end })
    local one, other = loader:each(), loader:each()
    assert.is_truthy(one())
    assert.is_truthy(other()) -- the second batch of `one` is under way, and is passed here
    assert.matches('number 15', message(other))
    assert.matches('number 15', message(one))
    assert.are.equal(60, one():tolist()[1][1])
    assert.are.equal(60, other():tolist()[1][1])
  end)

  it('shares a source with another loader and its threads, without a copy (F19)', function()
    local big = ridge.zeros(40000, 100) -- 16 MB
    local function numbers(loader)
      local sum, n = 0, 0
      for a in loader:each() do
        sum, n = sum + a:to('f64'):sum():item(), n + a:size(1)
      end
      return sum, n
    end
    collectgarbage()
    local before = ridge.memory.stats().live
    local one = ridge.data.Loader({ big }, { batch = 100, workers = 3, seed = 1 })
    local other = ridge.data.Loader({ big }, { batch = 80, workers = 2, seed = 2 })
    ridge.memory.reset_peak()
    local a, b = one:each(), other:each()
    a()
    b()
    -- batches under way are 40 kB and 32 kB each
    assert.is_true(ridge.memory.stats().peak - before < big.bytes / 4)
    big:fill_(2) -- what is written to the source, every loader gives: it is the same memory
    local rows_of_one, rows_of_other = 40000 * 100 * 2, 40000 * 100 * 2
    assert.same({ rows_of_one, 40000 }, { numbers(one) })
    assert.same({ rows_of_other, 40000 }, { numbers(other) })
  end)

  it('changes rows in the threads, each in a state of its own', function()
    local plain
    for _, workers in ipairs { 0, 1, 3 } do
      local list = batches { batch = 9, seed = 1, workers = workers,
        transform = function(number, row, label)
          row[0] = row[0] * 2
          label[0] = number * 10
        end }
      plain = plain or list
      assert.same(plain, list)
      for i, row in ipairs(list[1][1]) do
        local number = list[1][2][i] / 10
        assert.same({ number * 3 * 2, number * 3 + 1, number * 3 + 2 }, row)
      end
    end
    assert.are.equal(0, x:tolist()[1][1]) -- the data set itself stays
    assert.are.equal(3, x:tolist()[2][1])
  end)

  it('says what went wrong in a thread, and goes on with the next batch', function()
    local loader = ridge.data.Loader({ x, y }, { batch = 10, shuffle = false, workers = 2,
      transform = function(number) if number == 15 then error('number ' .. number) end end })
    local seen = 0
    local ok, err = pcall(function()
      for _ in loader:each() do seen = seen + 1 end
    end)
    assert.is_false(ok)
    assert.are.equal(1, seen)
    assert.matches('number 15', tostring(err))
    local found = 0
    pcall(function() for _ in loader:each() do found = found + 1 end end)
    assert.are.equal(1, found)
  end)

  it('refuses a transform that reaches for what is not there', function()
    local outside = 3
    assert.matches('uses outside from outside', message(ridge.data.Loader, { x, y }, {
      transform = function(_, row) row[0] = outside end }))
  end)

  it('keeps its threads from epoch to epoch, and ends them', function()
    collectgarbage()
    collectgarbage()
    local before = threads()
    local loader = ridge.data.Loader({ x, y }, { batch = 10, seed = 1, workers = 4 })
    assert.are.equal(before + 4, threads())
    for _ = 1, 3 do
      for _ in loader:each() do end
      assert.are.equal(before + 4, threads())
    end
    loader:each()() -- left half-way
    local n = 0
    for _ in loader:each() do n = n + 1 end
    assert.are.equal(10, n)
    loader = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.are.equal(before, threads())
  end)

  it('leaves nothing behind', function()
    collectgarbage()
    collectgarbage()
    local live = ridge.memory.stats().live
    for _ = 1, 5 do batches { batch = 8, seed = 1, workers = 2 } end
    collectgarbage()
    collectgarbage()
    assert.are.equal(live, ridge.memory.stats().live)
  end)
end)
