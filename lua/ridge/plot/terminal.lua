-- SPDX-License-Identifier: MIT
--
-- Pictures in a terminal: maps as half blocks, two pixels a character, in the colours and on the
-- scales of the PNG; any figure by the protocols of kitty and iTerm2 where the terminal is one of
-- them. Where there are no colours a map is characters from pale to dark.

local color = require 'ridge.plot.color'
local plain = require 'ridge.plain'
local theme = require 'ridge.plot.theme'
local unit = require 'ridge.show.unit'

local M = {}

local HALF = '▀'
local LEVELS = { ' ', '.', ':', '-', '=', '+', '*', '#', '%', '@' }
local LETTER = { oom = 'M', timeout = 'T', error = 'E', crashed = 'C', infeasible = '/',
  implied = 'm', no_interval = '?', unseen = '~', pending = '·', running = '·', missing = '·' }
local WORD = { oom = 'out of memory', timeout = 'timeout', error = 'error', crashed = 'crashed',
  infeasible = 'infeasible', implied = 'implied', no_interval = 'no interval',
  unseen = 'fast state not seen',
  pending = 'not yet', running = 'not yet', missing = 'not yet' }

-- -- What the terminal can do -----------------------------------------------------------------

--- How many colours the output shows.
---@param is_terminal boolean
---@param env function|nil os.getenv, or what stands in for it
---@return string depth 'true' (24 bits), '256' or 'none'
function M.depth(is_terminal, env)
  env = env or os.getenv
  local no, term = env 'NO_COLOR', env 'TERM' or ''
  if not is_terminal or no and no ~= '' or term == 'dumb' or term == '' then return 'none' end
  local claim = env 'COLORTERM' or ''
  if claim == 'truecolor' or claim == '24bit' or term:find 'direct' or term:find 'kitty' then
    return 'true'
  end
  return term:find '256' and '256' or 'none'
end

--- The protocol by which a terminal shows whole images; nil where none is known.
---@param env function|nil os.getenv, or what stands in for it
---@return string|nil protocol 'kitty' or 'iterm2'
function M.protocol(env)
  env = env or os.getenv
  if (env 'TMUX' or '') ~= '' then return nil end -- it would swallow the image
  if (env 'TERM' or ''):find 'kitty' or (env 'KITTY_WINDOW_ID' or '') ~= '' then return 'kitty' end
  local program = env 'TERM_PROGRAM' or ''
  return (program == 'iTerm.app' or program == 'WezTerm') and 'iterm2' or nil
end

-- -- Half blocks ------------------------------------------------------------------------------

local function byte(v) return math.floor(math.max(0, math.min(1, v)) * 255 + 0.5) end

-- The nearest of the 6 x 6 x 6 cube of a terminal with 256 colours.
local function cube(c)
  local function step(v) return math.floor(math.max(0, math.min(1, v)) * 5 + 0.5) end
  return 16 + 36 * step(c[1]) + 6 * step(c[2]) + step(c[3])
end

local function sequence(layer, c, depth)
  if not c then return layer .. '9' end
  if depth == '256' then return ('%s8;5;%d'):format(layer, cube(c)) end
  return ('%s8;2;%d;%d;%d'):format(layer, byte(c[1]), byte(c[2]), byte(c[3]))
end

-- One line of characters from two rows of pixels; text[x] stands on its own there.
local function line_of(top, bottom, width, depth, text)
  local out, before = {}, nil
  for x = 1, width do
    local a, b, over = top[x], bottom[x], text and text[x]
    local codes
    if over then
      codes = sequence('3', over.ink, depth) .. ';' .. sequence('4', a, depth)
    else
      codes = sequence('3', a, depth) .. ';' .. sequence('4', b, depth)
    end
    if codes ~= before then out[#out + 1], before = '\27[' .. codes .. 'm', codes end
    out[#out + 1] = over and over.text or (a or b) and HALF or ' '
  end
  out[#out + 1] = '\27[0m'
  return table.concat(out)
end

--- A text in a colour, where there are any.
---@param text string
---@param c table color
---@param depth string 'true', '256' or 'none'
---@return string text
function M.tint(text, c, depth)
  if depth == 'none' then return text end
  return ('\27[%sm%s\27[0m'):format(sequence('3', c, depth), text)
end

-- -- Maps -------------------------------------------------------------------------------------

local function name_of(v)
  if type(v) ~= 'number' then return plain.line(v) end
  return v % 1 == 0 and unit.format('integer', v) or unit.number(v)
end

local function pad(text, width)
  local _, n = text:gsub('[^\128-\191]', '')
  return (' '):rep(math.max(0, width - n)) .. text
end

local function length(text) return select(2, text:gsub('[^\128-\191]', '')) end

local function plain_length(text) return length((text:gsub('\27%[[%d;]*m', ''))) end

-- Pixels of one panel: a cell is s by s of them, a gap where they are large enough.
local function pixels(data, facet, s, t, paint)
  local rows, over = {}, {}
  local height = #data.ys * s
  for y = 1, height do rows[y] = {} end
  for i = 1, #data.xs do
    for j = 1, #data.ys do
      local cell = facet.cells[i .. ':' .. j]
      local ground = cell.value and paint(data, t, cell) or t.blank
      local top = (#data.ys - j) * s
      for dy = 1, s do
        for dx = 1, s do rows[top + dy][(i - 1) * s + dx] = ground end
      end
      local letter = not cell.value and LETTER[cell.state or 'missing']
        or facet.best and facet.best[1] == i and facet.best[2] == j and '◆'
      if letter and s >= 2 then
        local line = math.floor((top + math.floor((s - 1) / 2)) / 2) + 1
        over[line] = over[line] or {}
        over[line][(i - 1) * s + math.ceil(s / 2)] = { text = letter, ink = cell.value
          and color.readable(ground, color.hex '#101418', color.hex '#FFFFFF') or t.muted }
      end
    end
  end
  return rows, over, height
end

-- Names of the columns below, as many as keep apart.
local function names_below(data, s, gutter)
  local line, free = {}, 0
  for i, v in ipairs(data.xs) do
    local name = name_of(v)
    local at = (i - 1) * s + math.max(0, math.floor((s - length(name)) / 2))
    if at >= free then
      line[#line + 1] = (' '):rep(at - (free > 0 and free - 1 or 0)) .. name
      free = at + length(name) + 1
    end
  end
  return (' '):rep(gutter) .. table.concat(line)
end

-- A value as the ends of a scale say it; a terminal has no raised digits.
local function end_of(data, v)
  local text = data.ratio and unit.number(v, 2) .. '×'
    or unit.format(data.share and 'percent' or data.kind, v)
  return (text:gsub('%^{(.-)}', '^%1'))
end

local function scale_bar(data, t, paint, depth)
  local n, top, bottom = 24, {}, {}
  for i = 1, n do
    local at = (i - 0.5) / n
    local v = data.share and data.lo + at * (data.hi - data.lo)
      or math.exp(math.log(data.lo) + at * (math.log(data.hi) - math.log(data.lo)))
    top[i] = paint(data, t, { value = v })
    bottom[i] = top[i]
  end
  return ('%s %s %s'):format(end_of(data, data.lo), line_of(top, bottom, n, depth),
    end_of(data, data.hi))
end

-- What the signs of a panel mean; `signs` says which there are.
local function missing_words(data, facet, signs)
  local seen, out = {}, {}
  if signs == 'none' then return out end
  for _, cell in pairs(facet.cells) do
    local state = not cell.value and (cell.state or 'missing')
    if state and not seen[LETTER[state] or '?'] then
      seen[LETTER[state] or '?'] = true
      out[#out + 1] = ('%s %s'):format(LETTER[state] or '?', WORD[state] or state)
    end
  end
  table.sort(out)
  if facet.best and signs == 'all' then table.insert(out, 1, '◆ ' .. (data.best_word or 'best')) end
  return out
end

-- Without colours: from pale to dark, two characters a cell.
local function plain_panel(data, facet, gutter, say)
  for j = #data.ys, 1, -1 do
    local cells = {}
    for i = 1, #data.xs do
      local cell = facet.cells[i .. ':' .. j]
      local text = LETTER[cell.state or 'missing'] or '?'
      if cell.value then
        local at = data.share and cell.value / data.hi
          or (math.log(cell.value) - math.log(data.lo)) / (math.log(data.hi) - math.log(data.lo))
        if data.better ~= 'higher' then at = 1 - at end
        text = LEVELS[math.max(1, math.min(#LEVELS, math.floor(at * #LEVELS) + 1))]
      end
      cells[i] = text .. text
    end
    say(pad(name_of(data.ys[j]), gutter - 1) .. ' ' .. table.concat(cells))
  end
  say(names_below(data, 2, gutter))
  say(("'%s' is worst, '%s' best, of %s to %s"):format(LEVELS[1], LEVELS[#LEVELS],
    end_of(data, data.lo), end_of(data, data.hi)))
end

-- Returns which signs stand in it: 'all', 'letters' (the best is not marked) or 'none'.
local function panel(data, facet, opt, say)
  local gutter = 0
  for _, v in ipairs(data.ys) do gutter = math.max(gutter, length(name_of(v)) + 1) end
  if opt.depth == 'none' then
    plain_panel(data, facet, gutter, say)
    return 'letters'
  end
  local room = math.max(8, (opt.columns or 80) - gutter - 1)
  local s = math.max(1, math.min(8, math.floor(room / #data.xs),
    math.floor(2 * (opt.lines or 24) / #data.ys)))
  if s > 1 and s % 2 == 1 then s = s - 1 end -- whole characters for whole cells
  local rows, over, height = pixels(data, facet, s, opt.theme, opt.paint)
  local width = math.min(#data.xs * s, room)
  for line = 1, math.ceil(height / 2) do
    -- the cell in the middle of which this line stands gives its name
    local from_top = math.floor((2 * line - 2) / s)
    local first = from_top * s
    local is_middle = s == 1 and line % 2 == 1
      or s > 1 and line == math.floor((first + math.floor((s - 1) / 2)) / 2) + 1
    local v = data.ys[#data.ys - from_top]
    say(pad(is_middle and v ~= nil and name_of(v) or '', gutter - 1) .. ' '
      .. line_of(rows[2 * line - 1], rows[2 * line] or {}, width, opt.depth, over[line]))
  end
  say(names_below(data, s, gutter))
  return s >= 2 and 'all' or 'none'
end

--- A map as lines of text.
---@param figure table of ridge.plot.map and its kin
---@param opt table|nil columns, lines (for the cells), depth ('true', '256', 'none'), theme
---@return table lines
function M.lines(figure, opt)
  opt = opt or {}
  local data, out = figure.data, {}
  if not data then return { figure.title, figure.finding or '', figure:text() } end
  local own = { columns = opt.columns or 80, lines = opt.lines or 24, depth = opt.depth or 'none',
    theme = theme.get(opt.theme or 'dark'), paint = require('ridge.plot.map').ground }
  local function say(text) out[#out + 1] = text end
  for _, facet in ipairs(data.facets) do
    local head = ('%s%s'):format(figure.title,
      facet.title ~= '' and ', ' .. plain.line(facet.title) or '')
    local axes = ('%s upwards, %s across'):format(plain.line(data.y), plain.line(data.x))
    if length(head) + length(axes) + 2 <= own.columns then
      say(head .. '  ' .. axes)
    else
      say(head)
      say(axes)
    end
    local words = missing_words(data, facet, panel(data, facet, own, say))
    if own.depth ~= 'none' then
      table.insert(words, 1, scale_bar(data, own.theme, own.paint, own.depth))
    end
    local line = ''
    for _, word in ipairs(words) do -- as many as fit
      local longer = line == '' and word or line .. '   ' .. word
      if line ~= '' and plain_length(longer) > own.columns then
        say(line)
        longer = word
      end
      line = longer
    end
    if line ~= '' then say(line) end
  end
  return out
end

-- -- Whole images -----------------------------------------------------------------------------

local ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

local pairs_of -- the two letters of each twelve bits: pages carry megabytes

--- Base64 (RFC 4648).
---@param bytes string
---@return string text
function M.base64(bytes)
  if not pairs_of then
    pairs_of = {}
    for i = 0, 4095 do
      local a, b = math.floor(i / 64) + 1, i % 64 + 1
      pairs_of[i] = ALPHABET:sub(a, a) .. ALPHABET:sub(b, b)
    end
  end
  local out, n, rest = {}, 0, #bytes % 3
  for i = 1, #bytes - rest, 3 do
    local a, b, c = bytes:byte(i, i + 2)
    out[n + 1], out[n + 2] = pairs_of[a * 16 + math.floor(b / 16)], pairs_of[b % 16 * 256 + c]
    n = n + 2
  end
  if rest > 0 then
    local a, b = bytes:byte(-rest, -1)
    b = b or 0
    local text = pairs_of[a * 16 + math.floor(b / 16)] .. pairs_of[b % 16 * 256]
    out[n + 1] = text:sub(1, rest + 1) .. ('='):rep(3 - rest)
  end
  return table.concat(out)
end

local CHUNK = 4096 -- of kitty's protocol

--- A PNG file's bytes as a terminal shows them.
---@param bytes string
---@param protocol string 'kitty' or 'iterm2'
---@return string text
function M.image(bytes, protocol)
  local text = M.base64(bytes)
  if protocol == 'iterm2' then
    return ('\27]1337;File=inline=1;size=%d;width=auto:%s\7\n'):format(#bytes, text)
  end
  local out = {}
  for at = 1, #text, CHUNK do
    local more = at + CHUNK <= #text and 1 or 0
    out[#out + 1] = ('\27_G%sm=%d;%s\27\\'):format(at == 1 and 'a=T,f=100,' or '', more,
      text:sub(at, at + CHUNK - 1))
  end
  return table.concat(out) .. '\n'
end

--- Show a figure where this process writes: as an image where the terminal takes one, a map as
--- half blocks, anything else as its title and caption.
---@param figure table
---@param opt table|nil is_terminal, columns, lines, theme, env; by default standard output as it is
---@return string text
function M.show(figure, opt)
  opt = opt or {}
  local depth = M.depth(opt.is_terminal or false, opt.env)
  local protocol = opt.is_terminal and M.protocol(opt.env)
  if protocol then
    local path = os.tmpname()
    local ok, err = pcall(figure.save, figure, path .. '.png', { scale = 1, theme = opt.theme })
    local file = ok and io.open(path .. '.png', 'rb')
    local bytes = file and file:read '*a'
    if file then file:close() end
    os.remove(path)
    os.remove(path .. '.png')
    if not ok then error(err, 0) end
    return M.image(bytes, protocol)
  end
  return table.concat(M.lines(figure, { columns = opt.columns, lines = opt.lines, depth = depth,
    theme = opt.theme }), '\n') .. '\n'
end

return M
