// The pen of a canvas, with the width and height that it draws on, however fine the screen is.
const prepare = (canvas) => {
  const { clientWidth: width, clientHeight: height } = canvas, scale = window.devicePixelRatio || 1;
  const pen = canvas.getContext("2d");
  canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.font = "12px system-ui, sans-serif";
  return [pen, width, height];
};
