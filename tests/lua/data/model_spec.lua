-- SPDX-License-Identifier: MIT
--- Loaders beside a plain model of one: lists, an order that is drawn as Durstenfeld shuffles, and
--- batches that are cut from it; whatever gathers them, and however many iterations take turns.

local ridge = require 'ridge'
local folders = dofile 'tests/lua/store/folder.lua'
local Loader = ridge.data.Loader

local function failure(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return err.message
end

-- The orders of a seed, one after the other: numbers of rows from 0.
local function orders(seed, n, shuffle)
  local generator = ridge.generator(seed)
  return function()
    local list = {}
    for i = 1, n do list[i] = i - 1 end
    if not shuffle then return list end
    local u = ridge.rand(n, { generator = generator, dtype = 'f64' }):tolist()
    for i = n, 2, -1 do
      local j = math.floor(u[i] * i) + 1
      list[i], list[j] = list[j], list[i]
    end
    return list
  end
end

-- What an epoch should give: for each batch the numbers of its rows.
local function batches(order, size, drop_last)
  local list = {}
  for from = 1, #order, size do
    local rows = {}
    for i = from, math.min(#order, from + size - 1) do rows[#rows + 1] = order[i] end
    if #rows == size or not drop_last then list[#list + 1] = rows end
  end
  return list
end

-- Sources of n rows, each of which says its number: a vector, a matrix of halves, and a cube.
local function sources(n)
  local number = ridge.arange(0, n - 1, { dtype = 'i64' })
  local half = (number:to('f64'):reshape(n, 1) + ridge.tensor { 0, 0.5 }:to 'f64')
  local cube = number:to('u8'):reshape(n, 1, 1):expand(n, 2, 3)
  return { number, half, cube }
end

local function check(wanted, number, half, cube)
  local n = #wanted
  assert.same(wanted, number:tolist())
  assert.same({ 'i64', 'f64', 'u8' }, { number.dtype, half.dtype, cube.dtype })
  assert.same({ { n }, { n, 2 }, { n, 2, 3 } }, { number:size(), half:size(), cube:size() })
  local halves, cubes = half:tolist(), cube:tolist()
  for i, row in ipairs(wanted) do
    assert.same({ row, row + 0.5 }, halves[i])
    for a = 1, 2 do assert.same({ row, row, row }, cubes[i][a]) end
  end
end

local function check_epoch(wanted, loader)
  local n = 0
  for number, half, cube in loader:each() do
    n = n + 1
    check(wanted[n], number, half, cube)
  end
  assert.equal(#wanted, n)
end

describe('a loader', function()
  it('gives what a plain one gives, at every size, order and number of threads', function()
    for _, n in ipairs { 1, 2, 7, 12 } do
      for _, size in ipairs { 1, 2, 3, 4, 7 } do
        for which = 0, 7 do
          local shuffle, drop = which % 2 == 1, which % 4 > 1 and size <= n
          local workers = which > 3 and (n + size) % 3 + 1 or 0
          local loader = Loader(sources(n), { batch = math.min(size, n), seed = 10 * n + size,
            shuffle = shuffle, drop_last = drop, workers = workers, prefetch = size % 2 + 1 })
          local order = orders(10 * n + size, n, shuffle)
          size = math.min(size, n)
          local count = drop and math.floor(n / size) or math.ceil(n / size)
          for _ = 1, 3 do
            local wanted = batches(order(), size, drop)
            assert.equal(count, #wanted)
            check_epoch(wanted, loader)
          end
          assert.equal(count, loader:len())
          assert.equal(('data.Loader(%d rows in %d batches of %d%s)'):format(n, count, size,
            workers > 0 and (', %d threads'):format(workers) or ''), tostring(loader))
        end
      end
    end
  end)

  it('gives several iterations their own orders, whoever comes first', function()
    math.randomseed(7)
    for _, workers in ipairs { 0, 1, 2 } do
      for _ = 1, 10 do
        local loader = Loader(sources(11), { batch = 3, seed = 4, workers = workers, prefetch = 1 })
        local order, under_way = orders(4, 11, true), {}
        for i = 1, 3 do
          under_way[i] = { wanted = batches(order(), 3), at = 0, next = loader:each() }
        end
        while #under_way > 0 do
          local i = math.random(#under_way)
          local one = under_way[i]
          local found = { one.next() }
          one.at = one.at + 1
          if one.wanted[one.at] then
            check(one.wanted[one.at], unpack(found))
          else
            assert.is_nil(found[1])
            assert.is_nil((one.next())) -- and stays at its end
            table.remove(under_way, i)
          end
        end
      end
    end
  end)

  it('goes on where another one was, and starts threads without a word', function()
    local one = Loader(sources(9), { batch = 2, seed = 3 })
    local order = orders(3, 9, true)
    check_epoch(batches(order(), 2), one)
    check_epoch(batches(order(), 2), one)
    local state = one:state()
    assert.same({ 3, 36 }, { state.seed, state.offset }) -- an f64 takes two draws
    local wanted = batches(order(), 4)
    for _, workers in ipairs { 0, 2 } do
      local other = Loader(sources(9), { batch = 4, seed = 99, workers = workers })
      assert.equal(other, other:load_state(state))
      check_epoch(wanted, other)
      other:go_on(state)
      assert.equal(other, other:start(2))
      assert.equal(2, other.pool.workers)
      check_epoch(wanted, other)
      other:start(1) -- there are threads: it stays as it is
      assert.equal(2, other.pool.workers)
    end
    local plain = Loader(sources(9), { batch = 4, shuffle = false })
    assert.same({}, plain:state())
    check_epoch(batches(orders(1, 9)(), 4), plain:load_state(state)) -- it has no order to be at
    assert.is_nil(plain:start(0).pool)
    assert.equal('data.Loader:load_state: a state is expected, got 7', failure(plain.load_state,
      plain, 7))
    local shuffling = Loader(sources(9), { batch = 4, seed = 5 })
    shuffling:load_state {} -- of one that does not shuffle
    check_epoch(batches(orders(5, 9, true)(), 4), shuffling)
  end)

  it('draws its seed from the default stream, so that a script repeats itself', function()
    local function first()
      ridge.seed(12)
      local seed = Loader({ ridge.zeros(50) }, { batch = 5 }):state().seed
      return seed, ridge.rand(1):item()
    end
    local seed, number = first()
    assert.same({ seed, number }, { first() })
    ridge.seed(12)
    assert.equal(seed, ridge.randint(0, 2 ^ 31, 1):item())
    assert.equal(number, ridge.rand(1):item())
    ridge.seed(12) -- neither a given seed nor a fixed order draws one
    Loader({ ridge.zeros(50) }, { batch = 5, seed = 1 })
    Loader({ ridge.zeros(50) }, { batch = 5, shuffle = false })
    assert.equal(seed, ridge.randint(0, 2 ^ 31, 1):item())
  end)

  it('hands each row to a transform, with its number', function()
    for _, workers in ipairs { 0, 2 } do
      local loader = Loader(sources(7), { batch = 3, seed = 6, workers = workers,
        transform = function(number, a, b, c)
          a[0] = a[0] * 10 + number
          b[1] = b[0] + b[1]
          for i = 0, 5 do c[i] = c[i] + i end
        end })
      local order = orders(6, 7, true)
      for _ = 1, 2 do
        local wanted, at = batches(order(), 3), 0
        for number, half, cube in loader:each() do
          at = at + 1
          local numbers, halves, cubes = number:tolist(), half:tolist(), cube:tolist()
          assert.equal(#wanted[at], #numbers)
          for i, row in ipairs(wanted[at]) do
            assert.equal(11 * row, numbers[i])
            assert.same({ row, 2 * row + 0.5 }, halves[i])
            assert.same({ { row, row + 1, row + 2 }, { row + 3, row + 4, row + 5 } }, cubes[i])
          end
        end
      end
    end
  end)

  it('gives up to eight tensors, and no ninth', function()
    local list = {}
    for i = 1, 8 do list[i] = ridge.arange(0, 3) * i end
    for _, workers in ipairs { 0, 1 } do
      local found = { Loader(list, { batch = 4, shuffle = false, workers = workers }):each()() }
      assert.equal(8, #found)
      for i = 1, 8 do assert.same({ 0, i, 2 * i, 3 * i }, found[i]:tolist()) end
    end
    list[9] = list[1]
    assert.equal('data.Loader: 9 tensors; 8 are the most', failure(Loader, list, { batch = 4,
      workers = 1 }))
  end)

  it('says in whole sentences what cannot be', function()
    local x = ridge.zeros(10, 2)
    for _, case in ipairs {
      { 'data.Loader: a list of tensors is expected', 7 },
      { 'data.Loader: a list of tensors is expected', {} },
      { 'data.Loader: a tensor is expected, got 7', { 7 } },
      { 'data.Loader: tensor 2 has 9 rows and the first 10', { x, ridge.zeros(9) } },
      { 'data.Loader: tensor 3 has 0 rows and the first 10', { x, x, ridge.full(1) } },
      { 'data.Loader: the data set is empty', { ridge.zeros(0, 2) } },
      { 'data.Loader: the data set is empty', ridge.full(3) },
      { 'data.Loader: a batch of 11 is larger than the 10 rows there are, and drop_last leaves '
        .. 'none', x, { batch = 11, drop_last = true } },
    } do
      assert.equal(case[1], failure(Loader, case[2], case[3]))
    end
    assert.equal(1, Loader(x, { batch = 10, drop_last = true }):len())
    assert.equal(10, Loader(x, { shuffle = false }):each()():size(1))
  end)

  it('says once that a batch somebody typed is larger than what there is', function()
    local text = folders.run([[./ridge -e '
      ridge.data.Loader({ridge.zeros(3)}, {batch = 4})
      ridge.data.Loader({ridge.zeros(3)})
      ridge.data.Loader({ridge.zeros(3)}, {batch = 3})']])
    assert.equal(1, select(2, text:gsub('\n', '')))
    assert.matches('data%.Loader: a batch of 4 is larger than the 3 rows there are: each epoch is '
      .. 'one batch of 3\n$', text)
  end)

  it('has threads in a number that can be', function()
    for _, bad in ipairs { -1, 1.5, 257 } do
      assert.matches('^data%.Loader:start: option workers is ', failure(Loader(ridge.zeros(3),
        { batch = 1 }).start, Loader(ridge.zeros(3), { batch = 1 }), bad))
    end
    local one = Loader(ridge.zeros(3), { batch = 1 })
    assert.equal('data.Loader:start: option workers is missing: threads that gather batches; '
      .. 'they stay from epoch to epoch', failure(one.start, one))
  end)
end)

describe('rows of a file', function()
  local folder, path

  before_each(function()
    folder = folders.new()
    path = folder .. '/rows'
    local file = assert(io.open(path, 'wb'))
    file:write 'HEAD'
    for i = 0, 11 do file:write(string.char(i, 200 + i)) end
    file:close()
  end)
  after_each(function() folders.remove(folder) end)

  it('are batches as tensors are, converted, scaled and shifted as they are read', function()
    for _, workers in ipairs { 0, 2 } do
      local raw = ridge.data.rows(path, { dtype = 'u8', shape = { 2 }, offset = 4 })
      local half = ridge.data.rows(path, { dtype = 'u8', shape = { 2, 1 }, offset = 6, rows = 10,
        to = 'f32', scale = 0.5, shift = -3 })
      assert.equal(('data.rows(%s: 12 of u8[2])'):format(path), tostring(raw))
      assert.equal(('data.rows(%s: 10 of u8[2,1] as f32)'):format(path), tostring(half))
      local loader = Loader(half, { batch = 4, seed = 2, workers = workers })
      local wanted, at = batches(orders(2, 10, true)(), 4), 0
      for x in loader:each() do
        at = at + 1
        assert.same({ #wanted[at], 2, 1 }, x:size())
        assert.equal('f32', x.dtype)
        for i, row in ipairs(x:tolist()) do
          local number = wanted[at][i] + 1 -- the first row lies behind the offset
          assert.same({ { number * 0.5 - 3 }, { (200 + number) * 0.5 - 3 } }, row)
        end
      end
      local first = Loader({ raw, ridge.arange(0, 11) }, { batch = 12, shuffle = false,
        workers = workers }):each()
      local x, y = first()
      for i = 1, 12 do assert.same({ i - 1, 199 + i }, x:tolist()[i]) end
      assert.equal('u8', x.dtype)
      assert.equal(11, y:tolist()[12])
    end
  end)

  it('say what does not fit', function()
    local rows = ridge.data.rows
    for _, case in ipairs {
      { '%s has 28 bytes behind the first 0: that is 3.5 rows of 8 bytes', { shape = { 2 } } },
      { '%s has 24 bytes behind the first 4: that is 12 rows of 2 bytes, and 13 are wanted',
        { dtype = 'u8', shape = { 2 }, offset = 4, rows = 13 } },
      { '%s has 0 bytes behind the first 29: that is 0 rows of 1 bytes', { dtype = 'u8',
        shape = { 1 }, offset = 29 } },
      { 'sizes of a row are whole numbers from 1, got 0', { shape = { 0 } } },
      { 'sizes of a row are whole numbers from 1, got 1.5', { shape = { 2, 1.5 } } },
      { "sizes of a row are whole numbers from 1, got 'a'", { shape = { 'a' } } },
      { "scale and shift need to = 'f32'", { shape = {}, scale = 2, dtype = 'u8' } },
      { "scale and shift need to = 'f32'", { shape = {}, shift = 1, dtype = 'i8' } },
    } do
      assert.equal('data.rows: ' .. case[1]:format(path), failure(rows, path, case[2]))
    end
    assert.equal('data.rows: a path is expected, got 7', failure(rows, 7, { shape = {} }))
    assert.same({ 28, 0, 'f32' }, { rows(path, { dtype = 'u8', shape = {} }).rows,
      rows(path, { dtype = 'u8', shape = {}, offset = 28 }).rows,
      rows(path, { shape = {}, scale = 2 }).out })
    assert.equal(5, rows(path, { dtype = 'u8', shape = { 3 }, rows = 5 }).rows)
  end)
end)

describe('digits of seven strokes', function()
  it('have the labels, and the noise, that their seed draws', function()
    local images, labels = ridge.data.segments(6, { seed = 3, noise = 0 })
    assert.same({ { 6, 28, 28 }, 'u8', { 6 }, 'u8' }, { images:size(), images.dtype, labels:size(),
      labels.dtype })
    -- the labels are the tenth of ten numbers that each image draws
    local u = ridge.rand(6, 10, { generator = ridge.generator(3) }):tolist()
    for i, label in ipairs(labels:tolist()) do
      assert.equal(math.floor(u[i][10] * 10), label)
    end
    local noisy = ridge.data.segments(6, { seed = 3, noise = 40 })
    local generator = ridge.generator(3)
    ridge.rand(6, 10, { generator = generator })
    local noise = ridge.randn(6, 28, 28, { generator = generator }) * 40
    -- what is between the ends is the image and its noise, but for rounding
    local a, b, n = images:to('f32'):reshape(-1):tolist(), noisy:to('f32'):reshape(-1):tolist(), 0
    for i, v in ipairs(noise:reshape(-1):tolist()) do
      if b[i] > 0 and b[i] < 255 then
        assert.is_true(math.abs(a[i] + v - b[i]) < 2)
        n = n + 1
      end
    end
    assert.is_true(n > 1000)
    for _, bad in ipairs { 0, 1.5, 1e6 + 1, 'a' } do
      assert.matches('^data%.segments: a number of images from 1, got ', failure(
        ridge.data.segments, bad))
    end
  end)

  -- Each element again, by rotating the place and not the picture.
  it('are drawn as their definition says', function()
    local STROKES = { a = { 0, 0, 1, 0 }, b = { 1, 0, 1, 1 }, c = { 1, 1, 1, 2 },
      d = { 0, 2, 1, 2 }, e = { 0, 1, 0, 2 }, f = { 0, 0, 0, 1 }, g = { 0, 1, 1, 1 } }
    local DIGITS = { [0] = 'abcdef', 'bc', 'abged', 'abgcd', 'fgbc', 'afgcd', 'afgedc', 'abc',
      'abcdefg', 'abcfgd' }
    local images, labels = ridge.data.segments(12, { seed = 9, noise = 0 })
    local u, all = ridge.rand(12, 10, { generator = ridge.generator(9) }):tolist(), images:tolist()
    for i, label in ipairs(labels:tolist()) do
      local r = u[i]
      local width, height = 8 + 5 * r[1], 7 + 3 * r[2]
      local left, top = 3 + (19 - width) * r[3], 3 + (19 - 2 * height) * r[4]
      local slant, thick, ink = 0.5 * r[5] - 0.25, 0.8 + 1.1 * r[6], 150 + 105 * r[7]
      local angle = 0.4 * r[8] - 0.2
      for row = 1, 28 do
        for column = 1, 28 do
          -- the place in polar coordinates about the middle, rotated
          local far = math.sqrt((column - 15) ^ 2 + (row - 15) ^ 2)
          local at = math.atan2(row - 15, column - 15) + angle
          local x, y, near = 14 + far * math.cos(at), 14 + far * math.sin(at), 1e9
          for name in DIGITS[label]:gmatch '.' do
            local s = STROKES[name]
            local ay, by = top + s[2] * height, top + s[4] * height
            local ax = left + s[1] * width + slant * (14 - ay)
            local bx = left + s[3] * width + slant * (14 - by)
            for k = 0, 400 do -- along the stroke
              local px, py = ax + (bx - ax) * k / 400, ay + (by - ay) * k / 400
              near = math.min(near, math.sqrt((x - px) ^ 2 + (y - py) ^ 2))
            end
          end
          local cover = math.max(0, math.min(1, thick + 0.5 - near))
          assert.near(cover * ink, all[i][row][column], 1.5)
        end
      end
    end
  end)

  -- Each digit has its strokes: where the middle of one is, there is ink, and where one is missing,
  -- there is none. The strokes are numbered as on a calculator, by hand.
  it('have ink where their strokes are', function()
    local SEGMENTS = { [0] = 'abcdef', 'bc', 'abged', 'abgcd', 'fgbc', 'afgcd', 'afgedc', 'abc',
      'abcdefg', 'abcfgd' }
    local MIDDLE = { a = { 0.5, 0 }, b = { 1, 0.5 }, c = { 1, 1.5 }, d = { 0.5, 2 },
      e = { 0, 1.5 }, f = { 0, 0.5 }, g = { 0.5, 1 } }
    local images, labels = ridge.data.segments(200, { seed = 8, noise = 0 })
    local u = ridge.rand(200, 10, { generator = ridge.generator(8) }):tolist()
    local all = images:tolist()
    for i, label in ipairs(labels:tolist()) do
      local r = u[i]
      local width, height = 8 + 5 * r[1], 7 + 3 * r[2]
      local left, top = 3 + (19 - width) * r[3], 3 + (19 - 2 * height) * r[4]
      local slant, turn = 0.5 * (r[5] - 0.5), 0.4 * (r[8] - 0.5)
      for name, m in pairs(MIDDLE) do
        local y = top + m[2] * height
        local x = left + m[1] * width + slant * (14 - y)
        x, y = x - 14, y - 14 -- and rotated back about the middle
        local column = x * math.cos(turn) + y * math.sin(turn) + 14
        local row = -x * math.sin(turn) + y * math.cos(turn) + 14
        local ink = all[i][math.floor(row + 0.5) + 1]
        ink = ink and ink[math.floor(column + 0.5) + 1]
        if ink then
          local there = SEGMENTS[label]:find(name, 1, true) ~= nil
          assert.equal(there, ink >= 50, ('image %d, a %d: %s is %d'):format(i, label, name, ink))
        end
      end
    end
  end)
end)
