-- SPDX-License-Identifier: MIT
--- Digits of seven strokes, for those who have no data at hand: made, not downloaded, and easier
--- than handwriting.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local call = require 'ridge.ffi.call'
local blame = require 'ridge.blame'
local make = require('ridge.tensor.make').here
local options = require 'ridge.options'
local random = require 'ridge.random'

local M = {}

local SIZE = 28

-- The strokes: from, to, in halves of the digit's width and height; and which a digit has.
local STROKE = { { 0, 0, 1, 0 }, { 1, 0, 1, 1 }, { 1, 1, 1, 2 }, { 0, 2, 1, 2 }, { 0, 1, 0, 2 },
  { 0, 0, 0, 1 }, { 0, 1, 1, 1 } }
local DIGIT = { [0] = '123456', '23', '12457', '12347', '2367', '13467', '134567', '123', '1234567',
  '123467' }
local NUMBERS = 10 -- random numbers that an image takes beside its noise

-- Distance of a point to the line between two others.
local function distance(x, y, ax, ay, bx, by)
  local dx, dy = bx - ax, by - ay
  local t = ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy)
  t = math.max(0, math.min(1, t))
  local ex, ey = x - ax - t * dx, y - ay - t * dy
  return math.sqrt(ex * ex + ey * ey)
end

local lines = ffi.new('double[28]') -- of the digit that is drawn: both ends of each stroke

-- One image: u are random numbers from 0 to 1.
local function draw(to, digit, u)
  local width, height = 8 + 5 * u[1], 7 + 3 * u[2] -- of the digit; half of its height
  local left, top = 3 + (19 - width) * u[3], 3 + (19 - 2 * height) * u[4]
  local slant, thick, ink = 0.5 * (u[5] - 0.5), 0.8 + 1.1 * u[6], 150 + 105 * u[7]
  local turn = 0.4 * (u[8] - 0.5)
  local cos, sin = math.cos(turn), math.sin(turn)
  local n = 0
  for stroke in DIGIT[digit]:gmatch '.' do
    local s = STROKE[tonumber(stroke)]
    for i = 1, 3, 2 do
      local py = top + s[i + 1] * height
      lines[n], lines[n + 1] = left + s[i] * width + slant * (14 - py), py
      n = n + 2
    end
  end
  for row = 0, SIZE - 1 do
    for column = 0, SIZE - 1 do
      local x, y = column - 14, row - 14
      x, y = x * cos - y * sin + 14, x * sin + y * cos + 14
      local least = 99
      for i = 0, n - 4, 4 do
        least = math.min(least,
          distance(x, y, lines[i], lines[i + 1], lines[i + 2], lines[i + 3]))
      end
      local cover = math.max(0, math.min(1, thick + 0.5 - least))
      to[row * SIZE + column] = cover * ink
    end
  end
end

local SPEC = { seed = { 'integer', default = 1, min = 0, max = 2 ^ 53, doc = 'of the images' },
  noise = { 'number', default = 25, min = 0, max = 255, doc = 'standard deviation of the noise' } }

--- Images of digits made of seven strokes, each of another size, place, slant and thickness.
---@param n number how many
---@param opts table|nil {seed = 1, noise = 25}
---@return Tensor images u8 [n x 28 x 28]
---@return Tensor labels u8 [n]
-- >> images, labels = ridge.data.segments(4, {seed = 7})
function M.segments(n, opts)
  if type(n) ~= 'number' or n ~= math.floor(n) or n < 1 or n > 1e6 then
    blame.raise(('data.segments: a number of images from 1, got %s'):format(blame.show(n)))
  end
  opts = options.check(SPEC, opts, 'data.segments')
  local stream = random.generator(opts.seed)
  local u = make.rand(n, NUMBERS, { generator = stream }):tolist()
  local pixels = ffi.new('float[?]', n * SIZE * SIZE)
  local labels = {}
  for i = 1, n do
    labels[i] = math.floor(u[i][NUMBERS] * 10)
    draw(pixels + (i - 1) * SIZE * SIZE, labels[i], u[i])
  end
  local images = make.empty(n, SIZE, SIZE)
  call.check(C.rg_tensor_write(images._t, pixels, n * SIZE * SIZE * 4))
  local noise = make.randn(n, SIZE, SIZE, { generator = stream })
  images = (images + noise * opts.noise):maximum(0):minimum(255)
  return images:to 'u8', make.tensor(labels, { dtype = 'u8' })
end

return M
