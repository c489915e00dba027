-- SPDX-License-Identifier: MIT
--- Which path products take on this machine, by measuring it: ridge.autotune, and what it found.
--
-- The core measures and keeps (core/cpu/choice.c). A choice as text is what fresh processes are
-- given and what is stored beside measurements, so that a number says by what it was reached.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local columns = require 'ridge.show.columns'
local dtype = require 'ridge.tensor.dtype'
local plain = require 'ridge.plain'
local state = require 'ridge.state'
local unit = require 'ridge.show.unit'

local M = {}

local ROUNDS = 15
local PATHS = { 'onednn', 'openblas', 'own' } -- in the order of RG_GEMM_...
local CODE, ISA = {}, {}
for code, name in ipairs(PATHS) do CODE[name] = code end
for level = 0, C.RG_ISA_COUNT - 1 do ISA[ffi.string(C.rg_isa_name(level))] = level end

-- -- Rows -------------------------------------------------------------------------------------

local Choice = {}
Choice.__index = Choice

local function times_of(c)
  local times = {}
  for code, name in ipairs(PATHS) do
    if c.ns[code] > 0 then
      times[name] = { ns = c.ns[code], lo = c.lo[code], hi = c.hi[code] }
    end
  end
  return times
end

local function row_of(c)
  return setmetatable({ m = tonumber(c.m), k = tonumber(c.k), n = tonumber(c.n),
    compute = dtype.name(c.compute), a = dtype.name(c.a_dtype), b = dtype.name(c.b_dtype),
    c = dtype.name(c.c_dtype), a_across = c.a_across == 1, b_across = c.b_across == 1,
    kept = c.kept == 1, epilogue = c.epilogue == 1, threads = c.threads,
    isa = ffi.string(C.rg_isa_name(c.isa)), path = PATHS[c.path],
    standard = PATHS[c.standard], rounds = c.rounds, paths = times_of(c) }, Choice)
end

-- How many times as fast as the standard path, where another one was taken.
local function gain(row)
  local before, after = row.paths[row.standard], row.paths[row.path]
  return row.path ~= row.standard and before and after and ('%.2f'):format(before.ns / after.ns)
    or ''
end

local function median(t) return t and unit.format('ns', t.ns) or '' end

local function table_of(rows)
  local lines = {}
  for i, r in ipairs(rows) do
    lines[i] = { ('%d x %d x %d'):format(r.m, r.k, r.n), r.compute, r.threads, r.path, gain(r),
      median(r.paths.own), median(r.paths.onednn), median(r.paths.openblas) }
  end
  return columns.text({ 'm x k x n', 'type', 'threads', 'taken', 'gain', 'own', 'onednn',
    'openblas' }, lines, { right = { [5] = true, [6] = true, [7] = true, [8] = true } })
end

--- Each path with its interval.
function Choice:__tostring()
  local lines = {}
  for _, name in ipairs(PATHS) do
    local t = self.paths[name]
    if t then
      lines[#lines + 1] = { name, unit.format('ns', t.ns), unit.format('ns', t.lo) .. ' .. '
        .. unit.format('ns', t.hi), name == self.path and 'taken' or '' }
    end
  end
  local head = ('%d x %d x %d'):format(self.m, self.k, self.n)
  if #lines == 0 then
    return ('%s, %s: %s, not measured here'):format(head, self.compute, self.path)
  end
  return columns.text({ head, 'median', '95 % interval', self.compute }, lines,
    { right = { [2] = true, [3] = true } })
end

local Choices = {}
Choices.__index = Choices

function Choices:__tostring()
  if #self == 0 then return 'no product: none was computed, all were known, or a path is forced' end
  local changed = 0
  for _, r in ipairs(self) do if r.path ~= r.standard then changed = changed + 1 end end
  return ('%s\n%s, %d by another path than the standard one'):format(table_of(self),
    plain.count(#self, 'product'), changed)
end

--- What is known of products on this machine: those of this process's calls of ridge.autotune, and
--- those that it was given.
---@param first integer|nil the first of them, 1 when left out
---@return table list of {m =, k =, n = (sizes: m x k times k x n), compute =, a =, b =, c =
---  (types), a_across =, b_across = (columns adjacent), kept = (b is a parameter), epilogue = (more
---  than a bias and an activation), threads =, isa =, path =, standard = (what it would be
---  otherwise), rounds =, paths = {own = {ns = median, lo =, hi = 95 % interval}, onednn =,
---  openblas =}}; tostring is a table
function M.all(first)
  local list, c = {}, ffi.new 'rg_choice'
  for i = (first or 1) - 1, tonumber(C.rg_choices()) - 1 do
    call.check(C.rg_choice_at(i, c))
    list[#list + 1] = row_of(c)
  end
  return setmetatable(list, Choices)
end

-- -- Measuring --------------------------------------------------------------------------------

local TUNING = state.exchange(C.rg_tuning)

--- Measure which path is the fastest for each product that a function computes on the CPU (ridge's
--- own kernels, oneDNN or OpenBLAS), and let 'auto' take it from here on, in this process and those
--- it measures in. The paths run in turn, in 15 rounds; another than the standard one is taken
--- where the 95 % confidence interval of the rounds' ratios lies below 1. Another path may round
--- otherwise. Plans take the choices that there are when they first run.
---@param f function is called once
---@param ... any its arguments
---@return table choices as ridge.backend.choices gives them, of what was measured in this call
-- >> local net, x = ridge.nn.Linear(48, 80), ridge.ones(20, 48)
-- >> return #ridge.autotune(ridge.inference, net, x)
function M.autotune(f, ...)
  if not blame.callable(f) then
    blame.raise('autotune: a function is expected, got ' .. blame.show(f), 'EARG', 'autotune')
  end
  local before = tonumber(C.rg_choices())
  state.with(TUNING, { value = ROUNDS }, f, ...)
  return M.all(before + 1)
end

local Seen = {}
Seen.__index = Seen

function Seen:__tostring()
  if #self == 0 then return "no product whose path 'auto' decides" end
  local lines = {}
  for i, r in ipairs(self) do
    lines[i] = { ('%d x %d x %d'):format(r.m, r.k, r.n), r.compute, r.threads, r.calls, r.path,
      r.by, median(r.paths.own), median(r.paths.onednn), median(r.paths.openblas) }
  end
  return columns.text({ 'm x k x n', 'type', 'threads', 'calls', 'path', 'by', 'own', 'onednn',
    'openblas' }, lines, { right = { [7] = true, [8] = true, [9] = true } })
end

-- A decision for a list of rows: those about the same product are one.
local function add(entry, row)
  local text = M.line(row)
  local known = entry.by_text[text]
  if known then
    known.calls = known.calls + 1
    return
  end
  row.calls, entry.by_text[text] = 1, row
  row.by = row.rounds > 0 and 'measured' or row.standard and 'expected' or 'given'
  entry.list[#entry.list + 1] = row
end

local watching -- the innermost entry that is on; each knows the one around it

-- What was decided until now is every watching entry's; the core begins anew, or ends.
local function drain(on)
  local c = ffi.new 'rg_choice'
  for i = 0, tonumber(C.rg_paths_seen()) - 1 do
    call.check(C.rg_path_seen_at(i, c))
    local entry = watching
    while entry do
      add(entry, row_of(c))
      entry = entry.around
    end
  end
  C.rg_paths_watch(on)
end

local WATCHED = {
  on = function(entry)
    drain(1)
    entry.around, watching = watching, entry
  end,
  off = function(entry)
    drain(entry.around and 1 or 0)
    entry.around, watching = nil, entry.around
  end,
}

--- Which path each product of a function takes on the CPU where 'auto' decides, and by what: it was
--- measured here (ridge.autotune), it is expected to be the fastest, or another process measured it
--- and gave its choice.  Plans have decided: why is asked of the function they were captured from.
---@param f function is called once
---@param ... any its arguments
---@return table list of rows as ridge.backend.choices gives them, with calls = (how often) and by =
---  'measured', 'expected' or 'given'; tostring is a table
function M.why(f, ...)
  if not blame.callable(f) then
    blame.raise('why: a function is expected, got ' .. blame.show(f), 'EARG', 'why')
  end
  local entry = { list = setmetatable({}, Seen), by_text = {} }
  state.with(WATCHED, entry, f, ...)
  return entry.list
end

-- -- As text ----------------------------------------------------------------------------------

local PATTERN = '^(%d+)x(%d+)x(%d+) (%w+) (%w+)%*(%w+)=(%w+) ([abke]*) ?t(%d+) ([%w_]+): (%w+)$'

--- A choice as text.
---@param r table as ridge.backend.choices gives it
---@return string
function M.line(r)
  local flags = (r.a_across and 'a' or '') .. (r.b_across and 'b' or '') .. (r.kept and 'k' or '')
    .. (r.epilogue and 'e' or '')
  return ('%dx%dx%d %s %s*%s=%s %s%st%d %s: %s'):format(r.m, r.k, r.n, r.compute, r.a, r.b, r.c,
    flags, flags == '' and '' or ' ', r.threads, r.isa, r.path)
end

--- Choices that differ from the standard, as text: sizes, types, layout, threads, instruction set,
--- path; one after the other, in a fixed order.
---@return string|nil text nil where there is none
function M.text()
  local lines = {}
  for _, r in ipairs(M.all()) do
    if r.path ~= r.standard then lines[#lines + 1] = M.line(r) end
  end
  table.sort(lines)
  return #lines > 0 and table.concat(lines, '; ') or nil
end

local MOST_SIZE, MOST_THREADS = 2 ^ 53, 1024 -- beyond, a number is not the one that was written

local function parse(line)
  local m, k, n, compute, a, b, c, flags, threads, isa, path = line:match(PATTERN)
  m, k, n, threads = tonumber(m), tonumber(k), tonumber(n), tonumber(threads)
  if not m or not CODE[path] or not ISA[isa] or math.max(m, k, n) >= MOST_SIZE
    or threads > MOST_THREADS then
    blame.raise("backend.apply: '" .. plain.line(line) .. "' is no choice of a path", 'EARG')
  end
  local what = 'backend.apply'
  return ffi.new('rg_choice', { m = m, k = k, n = n,
    compute = dtype.code(compute, what), a_dtype = dtype.code(a, what),
    b_dtype = dtype.code(b, what), c_dtype = dtype.code(c, what),
    a_across = flags:find 'a' and 1 or 0, b_across = flags:find 'b' and 1 or 0,
    kept = flags:find 'k' and 1 or 0, epilogue = flags:find 'e' and 1 or 0,
    threads = threads, isa = ISA[isa], path = CODE[path] })
end

--- Put choices in force that another process had as text, and no others; where one is none, those
--- that there were stay.
---@param text string|nil as M.text gives it
function M.apply(text)
  if text == M.text() then return end
  local list = {}
  for line in (text or ''):gmatch '[^;]+' do
    list[#list + 1] = parse(line:match '^%s*(.-)%s*$')
  end
  C.rg_choices_forget()
  for _, choice in ipairs(list) do call.check(C.rg_choice_put(choice), 'backend.apply') end
end

return M
