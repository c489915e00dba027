-- SPDX-License-Identifier: MIT
--- Event files that TensorBoard opens: scalars, histograms, pictures, parameters of runs.

local blame = require 'ridge.blame'
local class = require('ridge.class').class
local clock = require 'ridge.store.clock'
local event = require 'ridge.tensorboard.event'
local files = require 'ridge.tensorboard.file'
local guard = require 'ridge.guard'
local options = require 'ridge.options'
local place = require 'ridge.store.place'
local ref = require 'ridge.ffi.ref'

local M = {}

local Writer = class 'tensorboard.Writer'

local function now() return clock.now_us() / 1e6 end

local SPEC = {
  buffer = { 'integer', default = 0, min = 0,
    doc = 'bytes that may wait to be written; 0: each value is in the file when its call returns' },
}

local count = 0 -- files that this process made: each has a name of its own

local function new_file(folder)
  local file
  repeat
    count = count + 1
    file = files.create(('%s/events.out.tfevents.%010d.ridge.%d.%d'):format(folder,
      now(), clock.pid(), count))
  until file
  return file
end

--- Begin a new event file.
---@param folder string the run's; made where it is missing
---@param opts table|nil { buffer = 0 }
-- >> w = ridge.tensorboard('/tmp/runs/one')
-- >> w:scalar('loss', 0.5, 1)
-- >> w:close()
function Writer:init(folder, opts)
  if type(folder) ~= 'string' then
    blame.raise(('tensorboard: the name of a folder is expected, got %s'):format(
      blame.show(folder)), 'EARG')
  end
  self.options = options.check(SPEC, opts, 'tensorboard')
  self.folder = place.make_folder(folder)
  self.file = new_file(self.folder)
  self.path = self.file.path
  self.steps = {} -- by tag: the last one
  self.file:add(event.record(event.version(now())))
  self:flush()
end

-- The step and the time of a value: those that are given, or the next and now.
local function when(self, what, tag, step, at_s)
  if type(tag) ~= 'string' or tag == '' then
    blame.raise(('%s: a tag is a text, got %s'):format(what, blame.show(tag)), 'EARG')
  end
  if step == nil then step = (self.steps[tag] or -1) + 1 end
  if type(step) ~= 'number' or step % 1 ~= 0 or math.abs(step) > 2 ^ 53 then -- nan is none
    blame.raise(('%s: the step of %s is a whole number, got %s'):format(what, tag,
      blame.show(step)), 'EARG')
  end
  if at_s ~= nil and (type(at_s) ~= 'number' or not (math.abs(at_s) < math.huge)) then
    blame.raise(('%s: the time of %s is a finite number, in seconds since 1970, got %s')
      :format(what, tag, blame.show(at_s)), 'EARG')
  end
  self.steps[tag] = step
  return step, at_s or now()
end

local function add(self, step, at_s, value)
  self.file:add(event.record(event.summary(at_s, step, value)))
  if self.file.n_waiting > self.options.buffer then self:flush() end
  return self
end

--- A number under a tag; nan and infinity are shown as such.
---@param tag string 'loss', 'train/loss'
---@param value number
---@param step number|nil the one behind the tag's last when left out
---@param at_s number|nil seconds since 1970; now when left out
---@return table self
function Writer:scalar(tag, value, step, at_s)
  if type(value) ~= 'number' then
    blame.raise(('tensorboard:scalar: %s is a number, got %s'):format(tostring(tag),
      blame.show(value)), 'EARG')
  end
  step, at_s = when(self, 'tensorboard:scalar', tag, step, at_s)
  return add(self, step, at_s, event.scalar(tag, value))
end

-- -- Histograms ---------------------------------------------------------------------------

local LARGEST = 1.7976931348623157e308 -- of a double
local LEAST, GROWTH = 1e-12, 1.1 -- the smallest bucket, and how each is larger than the one before

-- End number k of the buckets; in two factors, since one alone may be too large.
local function end_of(k)
  local most = math.min(k, 4000)
  return LEAST * GROWTH ^ most * GROWTH ^ (k - most)
end

-- The upper end of the bucket of a number, which is below it: TensorBoard's own buckets.
local function limit_of(x)
  if x == 0 or math.abs(x) < LEAST then return x < 0 and 0 or LEAST end
  local k = math.floor((math.log(math.abs(x)) - math.log(LEAST)) / math.log(GROWTH))
  if x > 0 then
    local limit = end_of(k + 1)
    return math.min(x < limit and limit or limit * GROWTH, LARGEST) -- an end of its own, not inf
  end
  local limit = -end_of(k)
  if x < limit then return limit end
  return k > 0 and limit / GROWTH or 0
end

--- Numbers in buckets.
---@param list table numbers
---@return table h min, max, n, sum, squares, limits, counts
---@return number not_finite that are not in it
function M.buckets(list)
  local h = { min = math.huge, max = -math.huge, n = 0, sum = 0, squares = 0, limits = {},
    counts = {} }
  local by, not_finite = {}, 0
  for i = 1, #list do
    local x = tonumber(list[i]) or 0
    if x ~= x or math.abs(x) == math.huge then
      not_finite = not_finite + 1
    else
      local limit = limit_of(x)
      if not by[limit] then
        by[limit] = 0
        h.limits[#h.limits + 1] = limit
      end
      by[limit] = by[limit] + 1
      h.min, h.max, h.n = math.min(h.min, x), math.max(h.max, x), h.n + 1
      h.sum, h.squares = h.sum + x, h.squares + x * x
    end
  end
  if h.n == 0 then h.min, h.max = 0, 0 end
  table.sort(h.limits)
  for i, limit in ipairs(h.limits) do h.counts[i] = by[limit] end
  return h, not_finite
end

-- The numbers of a tensor or of a list.
local function numbers_of(values, tag)
  if type(values) == 'cdata' and ref.is(values) then
    return values:detach():to('cpu'):to('f64'):reshape(-1):tolist()
  end
  if type(values) ~= 'table' then
    blame.raise(('tensorboard:histogram: %s is a tensor or a list of numbers, got %s'):format(
      tostring(tag), blame.show(values)), 'EARG')
  end
  for i = 1, #values do
    if type(values[i]) ~= 'number' then
      blame.raise(('tensorboard:histogram: %s has %s at %d, which is no number'):format(
        tostring(tag), blame.show(values[i]), i), 'EARG')
    end
  end
  return values
end

--- How the elements of a tensor, or the numbers of a list, are distributed. Those that are not
--- finite are left out, and counted as the scalar TAG/not_finite.
---@param tag string
---@param values Tensor|table
---@param step number|nil the one behind the tag's last when left out
---@param at_s number|nil seconds since 1970; now when left out
---@return table self
function Writer:histogram(tag, values, step, at_s)
  local list = numbers_of(values, tag)
  step, at_s = when(self, 'tensorboard:histogram', tag, step, at_s)
  local h, not_finite = M.buckets(list)
  add(self, step, at_s, event.histogram(tag, h))
  if not_finite > 0 then self:scalar(tag .. '/not_finite', not_finite, step, at_s) end
  return self
end

-- -- Pictures -----------------------------------------------------------------------------

local HEAD = '\137PNG\r\n\26\n'

local function size_at(png, at)
  local a, b, c, d = png:byte(at, at + 3)
  return ((a * 256 + b) * 256 + c) * 256 + d
end

-- Does it begin as a PNG file does, down to its size?
local function is_png(bytes)
  return bytes ~= nil and bytes:sub(1, 8) == HEAD and bytes:sub(13, 16) == 'IHDR' and #bytes >= 24
end

-- The bytes of a PNG file: of a figure, of a file by its path, or as given.
local function png_of(picture)
  if type(picture) == 'table' and type(picture.png) == 'function' then return picture:png() end
  if type(picture) == 'string' and is_png(picture) then return picture end
  if type(picture) == 'string' and picture:lower():find '%.png$' then
    local file, why = io.open(picture, 'rb')
    if not file then blame.raise('tensorboard:image: cannot read ' .. why, 'EIO') end
    local bytes = file:read '*a'
    file:close()
    if is_png(bytes) then return bytes end
  end
  blame.raise(('tensorboard:image: a figure, a path of a PNG file, or its bytes are expected, got '
    .. '%s'):format(blame.show(picture)), 'EARG')
end

--- A picture.
---@param tag string
---@param picture table|string a figure of ridge.plot, the path of a PNG file, or its bytes
---@param step number|nil the one behind the tag's last when left out
---@param at_s number|nil seconds since 1970; now when left out
---@return table self
function Writer:image(tag, picture, step, at_s)
  local png = png_of(picture)
  step, at_s = when(self, 'tensorboard:image', tag, step, at_s)
  return add(self, step, at_s, event.image(tag, png, size_at(png, 17), size_at(png, 21)))
end

-- -- Parameters ---------------------------------------------------------------------------

local function check_params(params, what)
  if type(params) ~= 'table' then
    blame.raise(('%s: a table of parameters is expected, got %s'):format(what,
      blame.show(params)), 'EARG')
  end
  for name, value in pairs(params) do
    local kind = type(value)
    if type(name) ~= 'string' or kind ~= 'number' and kind ~= 'string' and kind ~= 'boolean' then
      blame.raise(('%s: parameter %s is %s; numbers, texts, true and false can be'):format(what,
        tostring(name), blame.show(value)), 'EARG')
    end
  end
end

--- The parameters of the run that this file is of; TensorBoard's HPARAMS compares runs by them.
---@param params table by name
---@param name string|nil of the run; its folder's when left out
---@param at_s number|nil seconds since 1970; now when left out
---@return table self
function Writer:hparams(params, name, at_s)
  check_params(params, 'tensorboard:hparams')
  at_s = at_s or now()
  return add(self, 0, at_s, event.session(params, name or self.folder:match '[^/]+$' or '', at_s))
end

--- In the folder above several runs: what their parameters may be, and which scalars to compare.
---@param params table by name: a list of the values that there are
---@param metrics table tags of scalars
---@return table self
function Writer:experiment(params, metrics)
  if type(params) ~= 'table' or type(metrics) ~= 'table' then
    blame.raise('tensorboard:experiment: values by parameter and a list of tags are expected',
      'EARG')
  end
  local list = {}
  for name, values in pairs(params) do
    if type(values) ~= 'table' or #values == 0 then
      blame.raise(('tensorboard:experiment: the values of %s are a list, got %s'):format(
        tostring(name), blame.show(values)), 'EARG')
    end
    for _, value in ipairs(values) do
      check_params({ [name] = value }, 'tensorboard:experiment')
    end
    list[#list + 1] = { name = name, values = values }
  end
  for _, tag in ipairs(metrics) do
    if type(tag) ~= 'string' then
      blame.raise('tensorboard:experiment: tags are texts, got ' .. blame.show(tag), 'EARG')
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return add(self, 0, now(), event.experiment(list, metrics, now()))
end

--- Write what a function adds with one write, behind it: values that belong together.
---@param f function
---@param ... any its arguments
---@return table self
function Writer:together(f, ...)
  if not blame.callable(f) then
    blame.raise('tensorboard:together: a function is expected, got ' .. blame.show(f), 'EARG')
  end
  local buffer = self.options.buffer
  self.options.buffer = math.huge
  local ok, err = pcall(f, ...)
  self.options.buffer = buffer
  if not ok then error(err, 0) end
  return self.file.n_waiting > buffer and self:flush() or self
end

--- The run has ended.
---@param ok boolean|nil false: it failed
---@param at_s number|nil seconds since 1970; now when left out
---@return table self
function Writer:ended(ok, at_s)
  return add(self, 0, at_s or now(), event.ended(ok ~= false, at_s or now()))
end

-- -- The file -----------------------------------------------------------------------------

--- Write what waits. Where that fails nothing is lost: the next try begins with it.
---@return table self
-- Raises EIO with the path and the system's reason.
function Writer:flush()
  self.file:flush()
  return self
end

--- Write what waits, and close the file.
function Writer:close() self.file:close() end

Writer.__tostring = function(self)
  return ('event file %s, %d bytes'):format(self.path, self.file.size)
end
Writer.__tostring = guard.text(Writer.__tostring)

M.Writer = Writer

return M
