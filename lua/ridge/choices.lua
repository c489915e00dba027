-- SPDX-License-Identifier: MIT
--- Which path products and convolutions take on this machine, by measuring it: ridge.autotune, and
--- what it found.
--
-- The core measures and keeps (core/cpu/choice.c). A choice as text is what fresh processes are
-- given and what is stored beside measurements, so that a number says by what it was reached.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local columns = require 'ridge.show.columns'
local conv_ways = require 'ridge.conv_ways'
local dtype = require 'ridge.tensor.dtype'
local fitted = require 'ridge.fitted'
local guard = require 'ridge.guard'
local plain = require 'ridge.plain'
local state = require 'ridge.state'
local unit = require 'ridge.show.unit'

local M = {}

local ROUNDS = 15
local PATHS = { 'onednn', 'openblas', 'own' } -- in the order of RG_GEMM_...
local CODE, ISA, LEVEL, TYPE, NAME = {}, {}, {}, {}, {}
for code, name in ipairs(PATHS) do CODE[name] = code end
local WAYS = conv_ways.WAYS -- of convolutions
for level = 0, C.RG_ISA_COUNT - 1 do
  LEVEL[level] = ffi.string(C.rg_isa_name(level))
  ISA[LEVEL[level]] = level
end
for code = 0, C.RG_DTYPE_COUNT - 1 do
  NAME[code] = dtype.name(code)
  TYPE[NAME[code]] = code
end

-- -- Rows -------------------------------------------------------------------------------------

local Choice = {}
Choice.__index = Choice

--- The product of a choice as text: what decides which path is the fastest, without the path.
---@param r table as ridge.backend.choices gives it
---@return string
function M.problem(r)
  if conv_ways.is(r) then return conv_ways.problem(r) end
  local flags = (r.a_across and 'a' or '') .. (r.b_across and 'b' or '') .. (r.kept and 'k' or '')
    .. (r.epilogue and 'e' or '')
  return ('%dx%dx%d %s %s*%s=%s %s%st%d %s'):format(r.m, r.k, r.n, r.compute, r.a, r.b, r.c,
    flags, flags == '' and '' or ' ', r.threads, r.isa)
end

-- nil where the core has none.
local function times_of(c)
  if c.rounds == 0 or c.ns[c.path] == 0 then return nil end
  local times = {}
  for code, name in ipairs(c.work == 0 and PATHS or WAYS) do
    if c.ns[code] > 0 then
      local t = { ns = c.ns[code], lo = c.lo[code], hi = c.hi[code] }
      if c.ratio[code] > 0 then
        t.ratio, t.ratio_lo, t.ratio_hi = c.ratio[code], c.ratio_lo[code], c.ratio_hi[code]
      end
      times[name] = t
    end
  end
  return times
end

-- Times of what was measured before, as functions that read them: most are never asked for, and a
-- thousand would take thirty milliseconds of every start.  By product; at: of which measurement.
local unread = {}

local FIELDS = { 'ns', 'lo', 'hi', 'ratio', 'ratio_lo', 'ratio_hi' }

local function is_time(x) return type(x) == 'number' and x > 0 and x < math.huge end

-- Of the paths that this ridge has, those whose times are numbers.
local function clean(times, names)
  local out = {}
  for _, name in ipairs(names) do
    local t, copy = type(times) == 'table' and times[name], {}
    if type(t) == 'table' then
      for _, field in ipairs(FIELDS) do copy[field] = is_time(t[field]) and t[field] or nil end
      if copy.ratio and not (copy.ratio_lo and copy.ratio_hi) then copy.ratio = nil end
      if copy.ns and copy.lo and copy.hi then out[name] = copy end
    end
  end
  return out
end

local function later_times(row)
  local kept = row.at and unread[M.problem(row)]
  if not kept or kept.at ~= row.at then return {} end
  return clean(kept.read(), conv_ways.is(row) and WAYS or PATHS)
end

-- Without its times.
local function head_of(c)
  if c.work ~= 0 then return conv_ways.head(c) end
  return { m = tonumber(c.m), k = tonumber(c.k), n = tonumber(c.n), compute = NAME[c.compute],
    a = NAME[c.a_dtype], b = NAME[c.b_dtype], c = NAME[c.c_dtype], a_across = c.a_across == 1,
    b_across = c.b_across == 1, kept = c.kept == 1, epilogue = c.epilogue == 1,
    threads = c.threads, isa = LEVEL[c.isa], path = PATHS[c.path] }
end

local function row_of(c)
  local row = head_of(c)
  row.standard, row.rounds = (c.work == 0 and PATHS or WAYS)[c.standard], c.rounds
  row.at = c.at > 0 and tonumber(c.at) or nil
  row.paths = times_of(c) or later_times(row)
  return setmetatable(row, Choice)
end

--- A choice of the core's as ridge.backend.choices gives it.
---@param c cdata rg_choice
---@return table
M.row = row_of

-- How many times as fast as the standard path, where another one was taken: that of the rounds,
-- which stood side by side, where it is known.
local function gain(row)
  local before, after = row.paths[row.standard], row.paths[row.path]
  if row.path == row.standard or not (before and after) then return '' end
  return ('%.2f'):format(after.ratio and 1 / after.ratio or before.ns / after.ns)
end

--- The gain with its 95 % confidence interval: '1.43 [1.38 .. 1.47]'.
---@param row table as ridge.backend.choices gives it
---@return string text '' where the standard path is taken
function M.gain(row)
  local text, after = gain(row), row.paths[row.path]
  if text == '' or not after.ratio then return text end
  return ('%s [%.2f .. %.2f]'):format(text, 1 / after.ratio_hi, 1 / after.ratio_lo)
end

local function median(t) return t and unit.format('ns', t.ns) or '' end

-- What somebody else put into a list is no row of it.
local function genuine(list)
  local rows = {}
  for _, r in ipairs(list) do
    if getmetatable(r) == Choice and type(r.paths) == 'table' then rows[#rows + 1] = r end
  end
  return rows
end

--- The sizes of a product as text.
---@param r table as ridge.backend.choices gives it
---@return string
function M.sizes(r)
  if conv_ways.is(r) then return conv_ways.sizes(r) end
  return ('%s x %s x %s'):format(r.m, r.k, r.n)
end

local TIMES = { 'own', 'onednn', 'openblas' } -- in the order of columns

--- Rows as a table: what is given of each, then its times by path. What convolutions take has
--- columns where there are any.
---@param titles string[] 'm x k x n' is of what `sizes` gives
---@param rows table[]
---@param cells fun(row: table): table as many as titles
---@param right table<integer, boolean> columns that are aligned on the right
---@return string
function M.table(titles, rows, cells, right)
  local products, convs, lines, names = false, false, {}, {}
  for _, r in ipairs(rows) do
    if conv_ways.is(r) then convs = true elseif r.paths then products = true end
  end
  if products or not convs then for _, name in ipairs(TIMES) do names[#names + 1] = name end end
  if convs then for _, name in ipairs(WAYS) do names[#names + 1] = name end end
  local head, aligned = {}, {}
  for i, title in ipairs(titles) do
    head[i], aligned[i] = convs and title == 'm x k x n' and 'sizes' or title, right[i]
  end
  for i, name in ipairs(names) do head[#titles + i], aligned[#titles + i] = name, true end
  for i, r in ipairs(rows) do
    lines[i] = cells(r)
    for j, name in ipairs(names) do lines[i][#titles + j] = median(r.paths and r.paths[name]) end
  end
  return columns.text(head, lines, { right = aligned })
end

local function table_of(rows)
  return M.table({ 'm x k x n', 'type', 'threads', 'taken', 'gain' }, rows, function(r)
    return { M.sizes(r), r.compute, r.threads, r.path, gain(r) }
  end, { [5] = true })
end

-- '3 products', '2 convolutions', '3 products and a convolution'.
local function counted(rows)
  local n = 0
  for _, r in ipairs(rows) do n = n + (conv_ways.is(r) and 1 or 0) end
  local parts = {}
  if n < #rows or n == 0 then parts[1] = plain.count(#rows - n, 'product') end
  if n > 0 then parts[#parts + 1] = plain.count(n, 'convolution') end
  return table.concat(parts, ' and ')
end
M.counted = counted

--- Each path with its interval.
function Choice:__tostring()
  local lines = {}
  for _, name in ipairs(conv_ways.is(self) and WAYS or PATHS) do
    local t = self.paths[name]
    if t then
      local more = M.gain(self)
      lines[#lines + 1] = { name, unit.format('ns', t.ns), unit.format('ns', t.lo) .. ' .. '
        .. unit.format('ns', t.hi), name == self.path and (more == '' and 'taken'
        or 'taken, gain ' .. more) or '' }
    end
  end
  local head = M.sizes(self)
  if #lines == 0 then
    return ('%s, %s: %s, not measured here'):format(head, self.compute, self.path)
  end
  return columns.text({ head, 'median', '95 % interval', self.compute }, lines,
    { right = { [2] = true, [3] = true } })
end
Choice.__tostring = guard.text(Choice.__tostring)

local Choices = {}
Choices.__index = Choices

function Choices:__tostring()
  local rows, changed = genuine(self), 0
  if #rows == 0 then
    return 'no product and no convolution: none was computed that has another way, all were known, '
      .. 'or the path of products is forced'
  end
  for _, r in ipairs(rows) do if r.path ~= r.standard then changed = changed + 1 end end
  return ('%s\n%s, %d by another path than the standard one'):format(table_of(rows),
    counted(rows), changed)
end
Choices.__tostring = guard.text(Choices.__tostring)

--- What is known of products on this machine: those of this process's calls of ridge.autotune, and
--- those that it was given.
---@param first integer|nil the first of them, 1 when left out
---@param since number|nil only what was measured from then on, microseconds since 1970
---@return table list of {m =, k =, n = (sizes: m x k times k x n), compute =, a =, b =, c =
---  (types), a_across =, b_across = (columns adjacent), kept = (b is a parameter), epilogue = (more
---  than a bias and an activation), threads =, isa =, path =, standard = (what it would be
---  otherwise), rounds =, at = (when: microseconds since 1970), paths = {own = {ns = median, lo =,
---  hi = 95 % interval; ratio =, ratio_lo =, ratio_hi = of its time over that of the standard path,
---  in rounds}, onednn =, openblas =}}; tostring is a table
function M.all(first, since)
  local list, c = {}, ffi.new 'rg_choice'
  for i = (first or 1) - 1, tonumber(C.rg_choices()) - 1 do
    call.check(C.rg_choice_at(i, c))
    if not since or tonumber(c.at) >= since then list[#list + 1] = row_of(c) end
  end
  return setmetatable(list, Choices)
end

-- -- Measuring --------------------------------------------------------------------------------

local TUNING = state.exchange(C.rg_tuning)

--- Measure which path is the fastest for each product that a function computes on the CPU (ridge's
--- own kernels, oneDNN or OpenBLAS), and which way for each convolution and its gradients (oneDNN
--- in its own layout or on images as stored, ridge's tiles, a product where the kernel is 1 x 1 or,
--- with AVX2, of rows that are gathered), and let 'auto' take it from here on, in this process and
--- those it measures in. They run in turn, in 15 rounds; another than the standard one is taken
--- where the 95 % confidence interval of the rounds' ratios lies below 1. Another may round
--- otherwise. Plans take the choices that there are when they first run. Where the path of products
--- is forced (set_gemm, RIDGE_GEMM) convolutions alone are measured; with `deterministic` on
--- nothing is.
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

local KEEPING = state.exchange(C.rg_tuning_keeps)

--- Measure each product and convolution of a function by every path, also those that are known, and
--- remember nothing of it.
---@param rounds integer in which the paths run in turn, 6 at least
---@param f function is called once
---@param ... any its arguments
---@return table choices as ridge.backend.choices gives them
function M.measured(rounds, f, ...)
  return state.with(KEEPING, { value = 0 }, state.with, TUNING, { value = rounds }, M.why, f, ...)
end

--- Measure what is computed from here on, whatever function it is of, or no more of it.
---@param on boolean
function M.tune(on) C.rg_tuning(on and ROUNDS or 0) end

local Seen = {}
Seen.__index = Seen

local function day(at) return os.date('%Y-%m-%d %H:%M', at / 1e6) end

-- When what was measured was, as a line of its own.
local function when(rows)
  local first, last = math.huge, -math.huge
  for _, r in ipairs(rows) do
    if r.at then first, last = math.min(first, r.at), math.max(last, r.at) end
  end
  if last < first then return '' end
  first, last = day(first), day(last)
  return '\nmeasured ' .. (first == last and first or first .. ' to ' .. last)
end

function Seen:__tostring()
  local rows = genuine(self)
  if #rows == 0 then return "no product or convolution whose path 'auto' decides" end
  return M.table({ 'm x k x n', 'type', 'threads', 'calls', 'path', 'by' }, rows, function(r)
    return { M.sizes(r), r.compute, r.threads, r.calls, r.path, r.by }
  end, {}) .. when(rows)
end
Seen.__tostring = guard.text(Seen.__tostring)

-- A decision for a list of rows: those about the same product are one.
local function add(entry, row)
  local text = M.line(row)
  local known = entry.by_text[text]
  if known then
    known.calls = known.calls + 1
    return
  end
  row.calls, entry.by_text[text] = 1, row
  row.by = row.rounds > 0 and 'measured' or not row.standard and 'given'
    or row.path ~= row.standard and 'probed' or 'expected'
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

--- Which path each product of a function takes on the CPU where 'auto' decides, and which way each
--- convolution, and by what: it was measured here (ridge.autotune), it is expected to be the
--- fastest, by what was probed here (ridge.backend.probe) or by what is built in, or another
--- process measured it and gave its choice. Plans have decided: ridge.backend.why(plan) says what.
---@param f function is called once
---@param ... any its arguments
---@return table list of rows as ridge.backend.choices gives them, with calls = (how often) and by =
---  'measured' (at = says when), 'probed' (another path than the standard one), 'expected' or
---  'given'; tostring is a table
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
function M.line(r) return M.problem(r) .. ': ' .. r.path end

--- Whether what was measured is taken: not with `deterministic` on. Convolutions have ways to
--- choose from also where the path of products is forced.
---@return boolean
function M.decides() return C.rg_device_modes_now().deterministic == 0 end

--- The same of products, whose path may be forced (RIDGE_GEMM, set_gemm).
---@return boolean
function M.decides_products()
  return M.decides() and ffi.string(C.rg_gemm_path()) == 'auto'
end

--- Choices that differ from the standard, as text: sizes, types, layout, threads, instruction set,
--- path; one after the other, in a fixed order. Then what ridge.backend.probe fitted.
---@return string|nil text nil where there is none, and where `deterministic` is on: none is taken
function M.text()
  if C.rg_device_modes_now().deterministic ~= 0 then return nil end
  local lines, c = {}, ffi.new 'rg_choice'
  for i = 0, tonumber(C.rg_choices()) - 1 do
    call.check(C.rg_choice_at(i, c))
    if c.path ~= c.standard then lines[#lines + 1] = M.line(head_of(c)) end
  end
  for _, r in ipairs(fitted.all()) do lines[#lines + 1] = fitted.line(r) end
  table.sort(lines)
  return #lines > 0 and table.concat(lines, '; ') or nil
end

local MOST_SIZE, MOST_THREADS = 2 ^ 53, 1024 -- beyond, a number is not the one that was written

-- Into a choice; nil where the text is none that this ridge knows.
local function parse(line, into)
  local problem, way = line:match '^(conv2d.*): (%w+)$'
  if problem then return conv_ways.parse(problem, way, into) end
  local m, k, n, compute, a, b, c, flags, threads, isa, path = line:match(PATTERN)
  m, k, n, threads = tonumber(m), tonumber(k), tonumber(n), tonumber(threads)
  if not m or not CODE[path] or not ISA[isa] or math.max(m, k, n) >= MOST_SIZE
    or threads > MOST_THREADS then
    return nil
  end
  compute, a, b, c = TYPE[compute], TYPE[a], TYPE[b], TYPE[c]
  if not (compute and a and b and c) then return nil end
  into.m, into.k, into.n, into.compute = m, k, n, compute
  into.a_dtype, into.b_dtype, into.c_dtype = a, b, c
  local function has(flag) return flags:find(flag, 1, true) and 1 or 0 end
  into.a_across, into.b_across, into.kept, into.epilogue = has 'a', has 'b', has 'k', has 'e'
  into.threads, into.isa, into.path = threads, ISA[isa], CODE[path]
  return into
end

local function forget_products()
  C.rg_choices_forget()
  fitted.forget()
end

--- Let products take their standard paths again, and plans be what all passes make of them.
function M.forget()
  forget_products()
  require('ridge.plan_choices').forget()
end

--- Put choices in force that another process had as text, and no others; where one is none, those
--- that there were stay.
---@param text string|nil as M.text gives it
function M.apply(text)
  if text == M.text() then return end
  local list, costs = {}, {}
  for line in (text or ''):gmatch '[^;]+' do
    line = line:match '^%s*(.-)%s*$'
    local choice, numbers = parse(line, ffi.new 'rg_choice'), fitted.parse(line)
    if not choice and not numbers then
      blame.raise(("backend.apply: '%s' is no choice of a path"):format(plain.line(line)), 'EARG')
    end
    list[#list + 1], costs[#costs + 1] = choice, numbers
  end
  forget_products()
  for _, numbers in ipairs(costs) do fitted.put(numbers) end
  for _, choice in ipairs(list) do call.check(C.rg_choice_put(choice), 'backend.apply') end
end

-- -- Measured before --------------------------------------------------------------------------

local MOST_ROUNDS = 99

-- The number of a path of the work that a choice is of.
local function code_of(choice, name)
  for code, known in ipairs(choice.work == 0 and PATHS or WAYS) do
    if known == name then return code end
  end
end

--- Put choices in force that were measured before, beside those that there are: what was measured
--- later stays.
---@param list table each problem (M.problem), path, standard, rounds, at (microseconds since 1970),
---  times (a function that gives, by path: ns, lo, hi, and ratio, ratio_lo, ratio_hi)
---@return integer n how many were put
---@return integer skipped how many are none that this ridge knows
function M.put(list)
  local n, skipped, c = 0, 0, ffi.new 'rg_choice'
  local known = {}
  for i = 0, tonumber(C.rg_choices()) - 1 do
    call.check(C.rg_choice_at(i, c))
    known[M.problem(head_of(c))] = tonumber(c.at)
  end
  for _, stored in ipairs(list) do
    local choice = parse(stored.problem .. ': ' .. stored.path, ffi.new 'rg_choice')
    local standard = choice and code_of(choice, stored.standard)
    local rounds, at = stored.rounds, stored.at
    if not (choice and standard and is_time(rounds) and rounds <= MOST_ROUNDS
        and rounds % 1 == 0 and is_time(at) and at < MOST_SIZE) then
      skipped = skipped + 1
    elseif at > (known[stored.problem] or -1) then
      choice.standard, choice.rounds, choice.at = standard, rounds, at
      call.check(C.rg_choice_put(choice), 'load_choices')
      unread[stored.problem] = { at = at, read = stored.times }
      n = n + 1
    end
  end
  return n, skipped
end

--- Whose versions decide: of ridge, for its own kernels, and of the libraries; with what their
--- variables say of the instructions they may use.
---@return table versions path to text
function M.versions()
  local out = {}
  for code, name in ipairs(PATHS) do out[name] = ffi.string(C.rg_gemm_path_version(code)) end
  for name, variables in pairs { onednn = { 'ONEDNN_MAX_CPU_ISA', 'DNNL_MAX_CPU_ISA' },
      openblas = { 'OPENBLAS_CORETYPE' } } do
    for _, variable in ipairs(variables) do
      local value = os.getenv(variable)
      if value and value ~= '' then out[name] = ('%s %s'):format(out[name], plain.line(value)) end
    end
  end
  return out
end

return M
