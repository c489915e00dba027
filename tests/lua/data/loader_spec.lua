-- SPDX-License-Identifier: MIT
-- Batches: every row once an epoch, in an order that the seed says.
local ridge = require 'ridge'
local Loader = ridge.data.Loader

local function message(f, ...)
  local ok, err = pcall(f, ...)
  assert.is_false(ok)
  return tostring(err)
end

local function rows(loader)
  local out = {}
  for x, y in loader:each() do
    assert.same(x:size(1), y:size(1))
    for i, v in ipairs(x:tolist()) do
      out[#out + 1] = v[1]
      assert.equal(v[1] * 2, y:tolist()[i]) -- what belongs together stays together
    end
  end
  return out
end

describe('a loader', function()
  local x = ridge.arange(0, 9):reshape(10, 1)
  local y = ridge.arange(0, 9) * 2

  it('gives every row once, in another order each epoch, the same for the same seed', function()
    local one = Loader({ x, y }, { batch = 3, seed = 5 })
    local two = Loader({ x, y }, { batch = 4, seed = 5 })
    local first, second = rows(one), rows(one)
    assert.same(first, rows(two))
    assert.is_false(table.concat(first, ' ') == table.concat(second, ' '))
    table.sort(second)
    assert.same({ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, second)
    assert.equal(4, one:len())
  end)

  it('keeps the order when it is not to shuffle, and drops what is left over when told', function()
    assert.same({ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 }, rows(Loader({ x, y }, { batch = 4,
      shuffle = false })))
    local dropping = Loader({ x, y }, { batch = 4, shuffle = false, drop_last = true })
    assert.equal(2, dropping:len())
    assert.equal(8, #rows(dropping))
  end)

  it('puts every row in every place about equally often', function()
    local seen, loader = {}, Loader({ x, y }, { batch = 10, seed = 1 })
    for _ = 1, 2000 do
      for place, v in ipairs(rows(loader)) do
        local key = place .. ':' .. v
        seen[key] = (seen[key] or 0) + 1
      end
    end
    for key, n in pairs(seen) do assert.near(200, n, 75, key) end -- five standard deviations
  end)

  it('ends with its Lua state, whatever is under way', function()
    local path = os.tmpname()
    local file = assert(io.open(path, 'wb'))
    file:write(('x'):rep(784 * 20000))
    file:close()
    local pipe = assert(io.popen(([[luajit -e '
      package.cpath = "build/?.so"
      local ridge = require "ridge"
      local rows = ridge.data.rows(%q, { shape = { 784 }, dtype = "u8", to = "f32" })
      kept = ridge.data.Loader({ rows, ridge.zeros(20000) }, { batch = 2000, workers = 2 })
      print(kept:each()():size(1))' 2>&1]]):format(path)))
    local text = pipe:read('*a')
    local ended = pipe:close()
    os.remove(path)
    assert.equal('2000\n', text)
    assert.is_truthy(ended)
  end)

  it('on the CPU gives the same with pinned and device', function()
    local reference = rows(Loader({ x, y }, { batch = 3, seed = 5 }))
    for _, more in ipairs { { pinned = true }, { pinned = false }, { device = 'cpu' } } do
      more.batch, more.seed = 3, 5
      local loader = Loader({ x, y }, more)
      assert.same(reference, rows(loader))
      assert.is_nil(loader.pool)
    end
    if not ridge.device.available() then
      assert.matches('there is no CUDA', message(Loader, { x }, { device = 'cuda:0' }))
    end
  end)

  it('says what is wrong', function()
    assert.matches('tensor 2 has 9 rows and the first 10', message(Loader, { x, ridge.zeros(9) }))
    assert.matches('the data set is empty', message(Loader, { ridge.zeros(0, 2) }))
    assert.matches('a batch of 11 is larger than the 10 rows', message(Loader, { x },
      { batch = 11, drop_last = true }))
    assert.matches('batch is 0', message(Loader, { x }, { batch = 0 }))
    assert.matches('a list of tensors', message(Loader, {}))
    assert.equal(1, #{ Loader({ x }, { batch = 100 }):each()() })
  end)
end)

describe('digits of seven strokes', function()
  it('are the same for the same seed, and every digit comes', function()
    local images, labels = ridge.data.segments(60, { seed = 4 })
    local again = ridge.data.segments(60, { seed = 4 })
    assert.is_true(images:equal(again))
    assert.same({ 60, 28, 28 }, images:size())
    local seen = {}
    for _, v in ipairs(labels:tolist()) do seen[v] = true end
    for digit = 0, 9 do assert.is_true(seen[digit], digit) end
    -- ink enough for two strokes, inside of a margin, and no more than for seven thick ones
    local clean = ridge.data.segments(60, { seed = 4, noise = 0 })
    for i = 1, 60 do
      local ink = clean[i]:gt(60)
      local n = ink:to('f32'):sum():item()
      assert.is_true(n >= 14 and n <= 350, ('image %d: %d'):format(i, n))
    end
  end)

  it('are of straight lines: both strokes of a 1 are one', function()
    local images, labels = ridge.data.segments(300, { seed = 6, noise = 0 })
    for i, digit in ipairs(labels:tolist()) do
      if digit == 1 then
        -- its ink lies about a line: the variance across it is that of its thickness
        local ink, n, mean, var = images[i]:tolist(), 0, { 0, 0 }, { 0, 0, 0 }
        for y, row in ipairs(ink) do
          for x, v in ipairs(row) do
            n, mean[1], mean[2] = n + v, mean[1] + v * x, mean[2] + v * y
          end
        end
        for y, row in ipairs(ink) do
          for x, v in ipairs(row) do
            local dx, dy = x - mean[1] / n, y - mean[2] / n
            var[1], var[2], var[3] = var[1] + v * dx * dx / n, var[2] + v * dy * dy / n,
              var[3] + v * dx * dy / n
          end
        end
        local half, apart = (var[1] + var[2]) / 2, (var[1] - var[2]) / 2
        assert.is_true(half - math.sqrt(apart ^ 2 + var[3] ^ 2) < 2)
      end
    end
  end)

  it('lie about 12.5, the middle of 3 and 22, and are rotated about 14', function()
    local images, labels = ridge.data.segments(1000, { seed = 5, noise = 0 })
    local along, down, right, n = ridge.arange(0, 27), 0, 0, 0
    for i, digit in ipairs(labels:tolist()) do
      if digit == 0 or digit == 8 then -- above as below, left as right
        local ink = images[i]:to 'f32'
        local all = ink:sum():item()
        down = down + (ink:sum(2) * along):sum():item() / all
        right = right + (ink:sum(1) * along):sum():item() / all
        n = n + 1
      end
    end
    -- a mean of cos(t) for t of -0.2 .. 0.2 is sin(0.2) / 0.2 = 0.993
    assert.near(14 - 1.5 * 0.993, down / n, 0.3)
    assert.near(14 - 1.5 * 0.993, right / n, 0.7)
  end)
end)
