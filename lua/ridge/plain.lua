-- SPDX-License-Identifier: MIT
--- Text that was stored, as a terminal may be shown it: what a database, a file or an error holds
--- is never taken for a command of the terminal. Every control character, byte that is no UTF-8 and
--- mark that turns the direction of writing comes out as the escape that Lua would read back.

local M = {}

local NAMED = { ['\n'] = '\\n', ['\t'] = '\\t', ['\r'] = '\\r' }

local function escape(bytes)
  return (bytes:gsub('.', function(c) return NAMED[c] or ('\\%03d'):format(c:byte()) end)
    :gsub('%z', '\\000'))
end

-- Characters of more bytes that command: C1 controls (U+0080 to U+009F), separators of lines, marks
-- and overrides of direction (U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069).
local function commands(character)
  return character:find '^\194[\128-\159]$' ~= nil
    or character:find '^\226\128[\142\143\168-\174]$' ~= nil
    or character:find '^\226\129[\166-\169]$' ~= nil
end

-- Bytes of a character by its first one, and the least and most of its second (RFC 3629).
local function form(first)
  if first >= 0xc2 and first <= 0xdf then return 2, 0x80, 0xbf end
  if first == 0xe0 then return 3, 0xa0, 0xbf end
  if first == 0xed then return 3, 0x80, 0x9f end
  if first >= 0xe1 and first <= 0xef then return 3, 0x80, 0xbf end
  if first == 0xf0 then return 4, 0x90, 0xbf end
  if first >= 0xf1 and first <= 0xf3 then return 4, 0x80, 0xbf end
  if first == 0xf4 then return 4, 0x80, 0x8f end
  return nil
end

-- A run of bytes beyond ASCII.
local function high(bytes)
  local out, at = {}, 1
  while at <= #bytes do
    local n, least, most = form(bytes:byte(at))
    local second = bytes:byte(at + 1) or 0
    local character = n and bytes:sub(at, at + n - 1)
    if n and #character == n and second >= least and second <= most
        and not character:find('[\192-\255]', 2) then
      out[#out + 1] = commands(character) and escape(character) or character
      at = at + n
    else
      out[#out + 1] = escape(bytes:sub(at, at))
      at = at + 1
    end
  end
  return table.concat(out)
end

local function clean(text, controls)
  text = tostring(text)
  if not text:find '[%c\128-\255]' then return text end
  return (text:gsub(controls, escape):gsub('[\128-\255]+', high))
end

--- A text as one line.
---@param text any
---@return string line
-- >> plain.line 'a\27[2Jb\n'
function M.line(text) return clean(text, '%c') end

--- A text whose line breaks and tabs stay.
---@param text any
---@return string text
function M.text(text) return clean(text, '[%z\1-\8\11-\31\127]') end

local function write(file, ...)
  for i = 1, select('#', ...) do file:write(M.text((select(i, ...)))) end
end

--- A number of things: '1 call', '2 calls', '3 passes'.
---@param n integer
---@param what string one of them
---@return string text
function M.count(n, what)
  if n == 1 then return '1 ' .. what end
  return ('%.0f %s%s'):format(n, what, what:find 's$' and 'es' or 's')
end

--- A share in per cent, with two digits and never as a power of ten: '0.52 %', '99 %', '170 %'.
---@param share number
---@return string text
function M.percent(share)
  local x = 100 * share
  return (math.abs(x) < 9.95 and '%.2g %%' or '%.0f %%'):format(x)
end

--- Print texts on standard output.
---@param ... any
function M.print(...) write(io.stdout, ...) end

--- Print texts on standard error.
---@param ... any
function M.note(...) write(io.stderr, ...) end

return M
