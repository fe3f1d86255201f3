// What a person sees, read off the page as it is drawn. This file runs inside the browser, not in Node.
globalThis.look = {
  /** The cells of the map: their names, their words, and what is painted in them. */
  cells() {
    return [...document.querySelectorAll('.map > li > *')].map((cell) => ({
      name: cell.getAttribute('aria-label'),
      text: cell.textContent,
      target: cell.getAttribute('href'),
      letter: cell.querySelector('.letter')?.textContent ?? null,
      shares: [...cell.querySelectorAll('.cell rect')].map((rect) => {
        const { width, height } = rect.getBoundingClientRect();
        return { kind: rect.getAttribute('class').replace('v-', ''), fill: getComputedStyle(rect).fill, width, height };
      }),
    }));
  },

  /** Each verdict's colour and the marks that lie on it. */
  palette(kinds) {
    const colour = (selector) => getComputedStyle(document.querySelector(selector)).fill;
    return kinds.map((kind) => ({
      kind,
      colour: kind === 'sound' ? colour('.v-sound') : colour(`#p-${kind} rect`),
      marks: kind === 'sound' ? '' : [...document.querySelectorAll(`#p-${kind} :not(rect)`)].map((mark) => mark.outerHTML).join(''),
    }));
  },

  /** Texts that stand out too little from what is behind them (WCAG AA). */
  faintTexts() {
    const faint = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const parent = node.parentElement;
      if (node.textContent.trim() === '' || parent.closest('svg, script, style, .unseen') !== null || parent.getClientRects().length === 0)
        continue;
      const style = getComputedStyle(parent);
      const size = Number.parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      const ratio = contrast(style.color, backgroundOf(parent));
      if (ratio < (large ? 3 : 4.5)) faint.push(`${node.textContent.trim().slice(0, 40)}: ${ratio.toFixed(2)}`);
    }
    for (const letter of document.querySelectorAll('.key .letter')) {
      const ratio = contrast(getComputedStyle(letter).fill, getComputedStyle(letter.previousElementSibling).fill);
      if (ratio < 4.5) faint.push(`letter ${letter.textContent}: ${ratio.toFixed(2)}`);
    }
    return faint;
  },

  /** What reaches out of a screen of this width, apart from what scrolls by itself. A phone zooms out instead, so innerWidth says nothing. */
  overflowing(width) {
    const wide = [...document.querySelectorAll('body *')].filter(
      (element) => element.closest('.scroll, .defs, .unseen, .skip') === null && element.getBoundingClientRect().right > width + 0.5,
    );
    return { scrolls: document.scrollingElement.scrollWidth - width, wide: wide.map((element) => element.outerHTML.slice(0, 120)) };
  },

  focused() {
    const element = document.activeElement;
    if (element === null || element === document.body) return null;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    return {
      tag: element.tagName.toLowerCase(),
      name: element.getAttribute('aria-label') ?? element.textContent,
      ring: style.outlineStyle !== 'none' && Number.parseFloat(style.outlineWidth) >= 2,
      inView: box.width > 0 && box.bottom > 0 && box.top < innerHeight && box.left >= 0,
      /** Its place among everything that a keyboard must reach. */
      place: [...document.querySelectorAll('a, button, summary, [tabindex="0"]')].indexOf(element),
    };
  },

  headings() {
    return [...document.querySelectorAll('h1, h2, h3, h4')].map((heading) => ({
      level: Number(heading.tagName[1]),
      text: heading.textContent,
    }));
  },
};

function channels(colour) {
  return colour.match(/[\d.]+/g).map(Number);
}

function luminance(colour) {
  const [red, green, blue] = channels(colour).map((value) =>
    value / 255 <= 0.03928 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one, other) {
  const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function backgroundOf(element) {
  for (let at = element; at !== null; at = at.parentElement) {
    const { backgroundColor } = getComputedStyle(at);
    if (channels(backgroundColor)[3] !== 0) return backgroundColor;
  }
  return 'rgb(255, 255, 255)';
}
